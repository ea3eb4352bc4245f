//! A small Java program of ours on the real Java client.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::target::Target;
use super::{Kit, tokens};
use crate::step;

/// The program, compiled.
pub(super) struct Program {
    class_path: String,
}

/// Runs all its checks on the cluster; it prints them as a test runner does.
pub(super) fn run(kit: &Kit, target: &Target, tables: u32) -> Result<()> {
    println!("\ninterop: the Java client on {}", target.master);
    let program = Program::compile(kit)?;
    step::run(&mut program.command(&["check", &target.master, &tables.to_string()]))?;
    tokens::run(kit, &program, target)
}

impl Program {
    pub(super) fn compile(kit: &Kit) -> Result<Program> {
        let sources = step::root().join("xtask/java");
        let libraries = libraries(kit, &sources)?;
        let classes = kit.folder().join("classes");
        let mut compile = Command::new("javac");
        compile.args(["--release", "11", "-Xlint:all,-path", "-proc:none", "-cp", &libraries]);
        compile.arg("-d").arg(&classes);
        for source in std::fs::read_dir(&sources)? {
            let path = source?.path();
            if path.extension().is_some_and(|ending| ending == "java") {
                compile.arg(path);
            }
        }
        step::run(&mut compile)?;
        Ok(Program { class_path: format!("{}:{libraries}", classes.display()) })
    }

    /// A run of it with these arguments.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("java");
        command.args(["-ea", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]);
        command.args(["-cp", &self.class_path, "Main"]).args(arguments);
        command
    }
}

/// The class path of the client, resolved by Maven once for a given pom.xml.
fn libraries(kit: &Kit, sources: &Path) -> Result<String> {
    let pom = sources.join("pom.xml");
    let list = kit.folder().join("java.classpath");
    let age = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    let is_fresh = matches!((age(&list), age(&pom)), (Ok(list), Ok(pom)) if list > pom);
    if !is_fresh {
        step::run(
            kit.maven()
                .arg("-f")
                .arg(&pom)
                .arg("dependency:build-classpath")
                .arg(format!("-Dmdep.outputFile={}", list.display())),
        )?;
    }
    let text = std::fs::read_to_string(&list).context("the class path of the Java client")?;
    Ok(text.trim().to_owned())
}
