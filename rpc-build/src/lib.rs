//! Turns `.proto` files into what Nyala's RPC crates need: prost messages, one marker type per RPC method, and tables
//! of required fields.
//!
//! It runs in build scripts and needs no installed tool (neither `protoc` nor `rustfmt`):
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let (protos, out) = (dir.path(), dir.path());
//! # std::fs::write(dir.path().join("echo.proto"), r#"
//! #     syntax = "proto2"; package demo;
//! #     message EchoPB { required string text = 1; }
//! #     service EchoService { rpc Echo(EchoPB) returns (EchoPB); }"#)?;
//! let code = rpc_build::Generator::new()
//!     .include(protos)
//!     .file("echo.proto")
//!     .runtime("::rpc_core")
//!     .generate()?;
//! code.write_to(out)?; // std::env::var("OUT_DIR") in a build script
//! assert!(code.files["demo.rs"].contains("pub mod echo_service"));
//! # Ok(())
//! # }
//! ```
//!
//! A whole program, from the `.proto` file to a server and a client, is `rpc-server/examples/greeter`.
//!
//! Each package becomes one file, `<package>.rs`, to be included in a module tree that mirrors the packages
//! (`a.b` in `mod a { mod b { .. } }`). Beside the messages it holds a module per service, named in snake case, with
//! `SERVICE` and the markers, and a module `required_tables`.
//!
//! What it is not: a general protobuf compiler. Streaming methods do not exist in Kudu's RPC and are refused, extensions
//! are read as options only (prost has none), and `bytes` fields are always `bytes::Bytes`, maps always `BTreeMap`.
#![forbid(unsafe_code)]

mod messages;
mod methods;
mod paths;
mod required;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// What to compile and which paths the generated code shall use. Consumed by nothing: [`Generator::generate`] may be
/// called again.
#[derive(Clone, Debug)]
pub struct Generator {
    includes: Vec<PathBuf>,
    files: Vec<PathBuf>,
    runtime: String,
    external: Vec<External>,
}

/// A package whose code lives elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct External {
    pub(crate) package: String,
    pub(crate) module: String,
}

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

impl Generator {
    /// Nothing to compile yet; the generated code refers to the crate `proto` unless [`runtime`](Self::runtime) says otherwise.
    pub fn new() -> Self {
        Self { includes: Vec::new(), files: Vec::new(), runtime: "::proto".to_owned(), external: Vec::new() }
    }

    /// Adds a folder that imports are relative to. `google/protobuf/*.proto` is always found.
    pub fn include(&mut self, folder: impl Into<PathBuf>) -> &mut Self {
        self.includes.push(folder.into());
        self
    }

    /// Adds a file to compile, below one of the include folders. Its imports come along by themselves, and are
    /// generated too unless they belong to an [external](Self::external) package.
    pub fn file(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.files.push(path.into());
        self
    }

    /// Sets the Rust path of the module with the trait `Method` and the module `required`, which the markers are made of:
    /// `::rpc_core` for programs that depend on it. It must be absolute (start with `::` or `crate::`).
    pub fn runtime(&mut self, path: impl Into<String>) -> &mut Self {
        self.runtime = path.into();
        self
    }

    /// Says that `package` and the packages below it are generated elsewhere, in the Rust module `module`:
    /// `external("kudu", "::proto::kudu")`. Nothing is written for them, references point there.
    pub fn external(&mut self, package: impl Into<String>, module: impl Into<String>) -> &mut Self {
        self.external.push(External { package: package.into(), module: module.into() });
        self
    }

    /// Compiles the files. The result is the same, byte for byte, for the same files in the same order.
    ///
    /// # Errors
    /// [`GenerateError::Compile`] when the `.proto` text is wrong (its message names file and line), and the others
    /// when it asks for something that Kudu's RPC does not have.
    pub fn generate(&self) -> Result<Generated, GenerateError> {
        let mut compiler = protox::Compiler::new(&self.includes)?;
        compiler.include_imports(true).include_source_info(true).open_files(&self.files)?;
        let pool = compiler.descriptor_pool();
        methods::refuse_streaming(&pool)?;

        let mut files = messages::generate(self, &pool, compiler.file_descriptor_set())?;
        for (package, tables) in required::generate(self, &pool) {
            files.entry(paths::file_name(&package)).or_default().push_str(&tables);
        }
        // The plain set of prost-types would lose the custom options. The comments are of no use to its readers.
        let descriptor_set = compiler.include_source_info(false).encode_file_descriptor_set();
        Ok(Generated { files, descriptor_set })
    }
}

/// The result of [`Generator::generate`], still in memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Generated {
    /// Rust text by file name (`kudu.master.rs`).
    pub files: BTreeMap<String, String>,
    /// A serialized `FileDescriptorSet` of all compiled files and their imports, dependencies first, custom options
    /// kept.
    pub descriptor_set: Vec<u8>,
}

impl Generated {
    /// Writes the files to `folder`, which must exist. A file that is right already is left alone, so that cargo does
    /// not rebuild for nothing.
    ///
    /// # Errors
    /// [`GenerateError::Write`] for the first file that could not be written.
    pub fn write_to(&self, folder: impl AsRef<Path>) -> Result<(), GenerateError> {
        for (name, text) in &self.files {
            let path = folder.as_ref().join(name);
            if std::fs::read(&path).is_ok_and(|old| old == text.as_bytes()) {
                continue;
            }
            std::fs::write(&path, text).map_err(|cause| GenerateError::Write { path, cause })?;
        }
        Ok(())
    }
}

/// Why no code came out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A `.proto` file is missing or wrong: mend the file that the message names.
    #[error(transparent)]
    Compile(#[from] protox::Error),
    /// prost cannot express a definition: change the definition.
    #[error("messages: {0}")]
    Messages(#[source] io::Error),
    /// Kudu's RPC has one request and one response per call: make the method unary.
    #[error("{service}.{method}: streaming methods do not exist in Kudu's RPC")]
    Streaming {
        /// Full name of the service.
        service: String,
        /// The method.
        method: String,
    },
    /// A result could not be written to disk.
    #[error("{}: {cause}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: io::Error,
    },
}
