//! The messages themselves: prost, with Nyala's choices.

use crate::methods::Markers;
use crate::{GenerateError, Generator};
use prost_build::Module;
use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorSet;
use std::collections::BTreeMap;

/// Rust text by file name: messages, enums and, through [`Markers`], the methods of each package that is ours.
pub(crate) fn generate(
    generator: &Generator,
    pool: &DescriptorPool,
    set: FileDescriptorSet,
) -> Result<BTreeMap<String, String>, GenerateError> {
    let mut config = prost_build::Config::new();
    config.bytes(["."]).btree_map(["."]);
    for external in &generator.external {
        config.extern_path(format!(".{}", external.package), &external.module);
    }
    config.service_generator(Box::new(Markers::new(generator, pool)));

    let requests = set
        .file
        .into_iter()
        .filter(|file| generator.is_ours(file.package()))
        .map(|file| (Module::from_protobuf_package_name(file.package()), file))
        .collect();
    let modules = config.generate(requests).map_err(GenerateError::Messages)?;
    Ok(modules.into_iter().map(|(module, text)| (module.to_file_name_or("_"), text)).collect())
}
