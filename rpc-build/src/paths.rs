//! Where the code of a package is found, seen from another one.

use crate::{External, Generator};
use prost_build::Module;

/// The file that holds a package's code.
pub(crate) fn file_name(package: &str) -> String {
    Module::from_protobuf_package_name(package).to_file_name_or("_")
}

impl Generator {
    /// The external package that covers `package`, the most specific one if there are several.
    fn external_of(&self, package: &str) -> Option<&External> {
        self.external
            .iter()
            .filter(|e| {
                package == e.package || package.strip_prefix(&e.package).is_some_and(|r| r.starts_with('.'))
            })
            .max_by_key(|e| e.package.len())
    }

    /// Whether the code of `package` is to be written here.
    pub(crate) fn is_ours(&self, package: &str) -> bool {
        package != "google.protobuf" && self.external_of(package).is_none()
    }

    /// The Rust path of the module of `package`, seen from a place `depth` modules below the module of `from`. Ends
    /// with `::` unless it is empty.
    pub(crate) fn module_path(&self, from: &str, depth: usize, package: &str) -> String {
        let to = Module::from_protobuf_package_name(package);
        if let Some(external) = self.external_of(package) {
            let covered = Module::from_protobuf_package_name(&external.package).len();
            let rest: String = to.parts().skip(covered).map(|part| format!("{part}::")).collect();
            return format!("{}::{rest}", external.module);
        }
        let from = Module::from_protobuf_package_name(from);
        let common = from.parts().zip(to.parts()).take_while(|(a, b)| a == b).count();
        let up = "super::".repeat(from.len() - common + depth);
        let down: String = to.parts().skip(common).map(|part| format!("{part}::")).collect();
        up + &down
    }
}
