//! `cargo xtask gen`: the generated code of the crate `proto`, written, compared, or as a descriptor set.

use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Generates `proto/src/gen/*.rs` from `proto/proto/**/*.proto`.
#[derive(clap::Args)]
pub(crate) struct Gen {
    /// Write no code, only compare: fail and name the files that are stale.
    #[arg(long)]
    pub(crate) check: bool,

    /// Write the serialized FileDescriptorSet of all messages, with imports and custom options, to FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) descriptor_set: Option<PathBuf>,
}

impl Gen {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let root = workspace();
        let generated = generate(&root.join("proto/proto"))?;
        if let Some(path) = &self.descriptor_set {
            std::fs::write(path, &generated.descriptor_set).with_context(|| format!("{}", path.display()))?;
        }
        let folder = root.join("proto/src/gen");
        if self.check {
            let stale = stale_files(&generated, &folder)?;
            if !stale.is_empty() {
                bail!("stale: {}; run `cargo xtask gen` and commit the result", stale.join(", "));
            }
        } else if self.descriptor_set.is_none() {
            write(&generated, &folder)?;
        }
        Ok(())
    }
}

/// The folder of the workspace, which is where this crate's folder is.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn generate(protos: &Path) -> anyhow::Result<rpc_build::Generated> {
    let mut generator = rpc_build::Generator::new();
    generator.include(protos).runtime("crate");
    for file in proto_files(protos)? {
        generator.file(file);
    }
    Ok(generator.generate()?)
}

/// All `.proto` files below a folder, sorted: the order of the generated code must not depend on the file system.
fn proto_files(folder: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.append(&mut proto_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.insert(path);
        }
    }
    Ok(found)
}

fn write(generated: &rpc_build::Generated, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    for name in file_names(folder)?.iter().filter(|name| !generated.files.contains_key(*name)) {
        std::fs::remove_file(folder.join(name)).with_context(|| format!("{name}: left over"))?;
    }
    Ok(generated.write_to(folder)?)
}

/// Names of files that differ from the generated ones, are missing, or are left over.
fn stale_files(generated: &rpc_build::Generated, folder: &Path) -> anyhow::Result<Vec<String>> {
    let present = file_names(folder)?;
    let left_over = present.iter().filter(|name| !generated.files.contains_key(*name));
    let wrong = generated.files.iter().filter_map(|(name, text)| {
        let same = std::fs::read(folder.join(name)).is_ok_and(|old| old == text.as_bytes());
        (!same).then_some(name)
    });
    Ok(left_over.chain(wrong).map(|name| format!("proto/src/gen/{name}")).collect())
}

fn file_names(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_code_is_fresh() {
        let generated = generate(&workspace().join("proto/proto")).unwrap();
        assert_eq!(stale_files(&generated, &workspace().join("proto/src/gen")).unwrap(), [""; 0]);
    }

    #[test]
    fn changed_missing_and_left_over_files_are_stale_until_they_are_written() {
        let protos = tempfile::tempdir().unwrap();
        for package in ["a", "b"] {
            let text =
                format!("syntax = \"proto2\"; package {package}; message M {{ required int32 i = 1; }}");
            std::fs::write(protos.path().join(format!("{package}.proto")), text).unwrap();
        }
        let generated = generate(protos.path()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.rs"), "").unwrap();
        std::fs::write(folder.path().join("old.rs"), "").unwrap();
        let stale = stale_files(&generated, folder.path()).unwrap();
        assert_eq!(stale, ["proto/src/gen/old.rs", "proto/src/gen/a.rs", "proto/src/gen/b.rs"]);

        write(&generated, folder.path()).unwrap();
        assert_eq!(stale_files(&generated, folder.path()).unwrap(), [""; 0]);
        assert_eq!(file_names(folder.path()).unwrap(), ["a.rs".to_owned(), "b.rs".to_owned()].into());
    }
}
