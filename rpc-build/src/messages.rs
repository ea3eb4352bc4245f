//! The messages themselves: prost, with Nyala's choices.

use crate::methods::Markers;
use crate::{GenerateError, Generator};
use prost_build::Module;
use prost_reflect::DescriptorPool;
use prost_types::FileDescriptorSet;
use std::collections::{BTreeMap, BTreeSet};

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

    // prost wants to know the external messages too (may a oneof of them be `Copy`?), although it writes no code for them.
    let packages: BTreeSet<_> = set.file.iter().map(|file| file.package().to_owned()).collect();
    let requests =
        set.file.into_iter().map(|file| (Module::from_protobuf_package_name(file.package()), file)).collect();
    let mut modules = config.generate(requests).map_err(GenerateError::Messages)?;
    for package in packages.iter().filter(|package| !generator.is_ours(package)) {
        modules.remove(&Module::from_protobuf_package_name(package));
    }
    Ok(modules.into_iter().map(|(module, text)| (module.to_file_name_or("_"), text)).collect())
}
