//! The real Kudu 1.18.1: its programs and libraries, brought by Maven into the folder `target`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::step;

const VERSION: &str = "1.18.1";
/// Their copies in the package do not work with Debian's Kerberos configuration; the system's are used in their place.
const LEFT_OUT: [&str; 3] = ["libkrb5.so.3", "libgssapi_krb5.so.2", "libk5crypto.so.3"];

/// Where the unpacked package is, and where Maven keeps what it brings.
#[derive(Debug)]
pub(crate) struct Kit {
    home: PathBuf,
    folder: PathBuf,
    repository: PathBuf,
}

impl Kit {
    /// Brings and unpacks the package, unless that is done already.
    pub(crate) fn bring(root: &Path) -> Result<Kit> {
        let folder = root.join("target/interop");
        let kit = Kit {
            home: folder.join(format!("kudu-binary-{VERSION}-linux-x86_64")),
            repository: root.join("target/m2"),
            folder,
        };
        let complete = kit.home.join("complete");
        if !complete.exists() {
            println!("interop: bringing Apache Kudu {VERSION} into target/ (about 45 MB, once)");
            kit.unpack().context("Apache Kudu could not be brought by Maven")?;
            std::fs::write(complete, "")?;
        }
        Ok(kit)
    }

    fn unpack(&self) -> Result<()> {
        let coordinates = format!("org.apache.kudu:kudu-binary:{VERSION}:jar:linux-x86_64");
        step::run(
            self.maven()
                .arg("dependency:get")
                .arg(format!("-Dartifact={coordinates}"))
                .arg("-Dtransitive=false"),
        )?;
        let jar = self
            .repository
            .join(format!("org/apache/kudu/kudu-binary/{VERSION}/kudu-binary-{VERSION}-linux-x86_64.jar"));
        std::fs::create_dir_all(&self.folder)?;
        step::run(Command::new("jar").current_dir(&self.folder).arg("xf").arg(jar))?;
        for program in std::fs::read_dir(self.home.join("bin"))? {
            std::fs::set_permissions(program?.path(), PermissionsExt::from_mode(0o755))?;
        }
        for library in LEFT_OUT {
            let path = self.libraries().join(library);
            if path.exists() {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Maven with the repository of this checkout, quiet and without questions.
    pub(crate) fn maven(&self) -> Command {
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "-ntp"]);
        command.arg(format!("-Dmaven.repo.local={}", self.repository.display()));
        command
    }

    /// The real `kudu` command line.
    pub(crate) fn kudu(&self) -> Command {
        let mut command = Command::new(self.programs().join("kudu"));
        command.env("SASL_PATH", self.libraries().join("sasl2"));
        command
    }

    /// The folder with `kudu`, `kudu-master` and `kudu-tserver`.
    pub(crate) fn programs(&self) -> PathBuf {
        self.home.join("bin")
    }

    /// The folder with the libraries, which carry the real message definitions.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.home.join("lib")
    }

    /// A folder below `target` for what the interop runs write.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}
