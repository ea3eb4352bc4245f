//! A small Java program of ours on the real Java client.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Kit;
use super::target::Target;
use crate::step;

/// Compiles the program and runs it on the cluster; it prints its checks as a test runner does.
pub(super) fn run(kit: &Kit, target: &Target, tables: u32) -> Result<()> {
    println!("\ninterop: the Java client on {}", target.master);
    let sources = step::root().join("xtask/java");
    let libraries = libraries(kit, &sources)?;
    let classes = kit.folder().join("classes");
    let mut compile = Command::new("javac");
    compile
        .args(["--release", "11", "-Xlint:all,-path", "-proc:none", "-cp", &libraries, "-d"])
        .arg(&classes);
    for source in std::fs::read_dir(&sources)? {
        let path = source?.path();
        if path.extension().is_some_and(|ending| ending == "java") {
            compile.arg(path);
        }
    }
    step::run(&mut compile)?;
    step::run(
        Command::new("java")
            .args(["-ea", "-Duser.timezone=UTC"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
            .arg("-cp")
            .arg(format!("{}:{libraries}", classes.display()))
            .args(["Main", &target.master, &tables.to_string()]),
    )
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
