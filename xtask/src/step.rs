//! Child commands of a developer command: run in the checkout, output shown, failure named.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// What is off by default and tested all the same. Builds that name the workspace and this share all they compile.
pub(crate) const FEATURES: &str = "--features=client/arrow";

/// The root of the checkout this program was built from.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// `cargo` with these arguments, in the root of the checkout.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// As [`cargo`], for work that leaves the machine to others who want it.
pub(crate) fn patient(arguments: &[&str]) -> Command {
    let inner = cargo(arguments);
    let mut command = Command::new("nice");
    command.current_dir(root()).args(["-n", "10"]).arg(inner.get_program()).args(arguments);
    command
}

/// Runs a command with its output shown; an exit code other than 0 is an error that quotes the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| quote(command))?;
    if !status.success() {
        bail!("{} ended with {status}", quote(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output; on failure the error holds its standard error.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| quote(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}\n{said}", quote(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Which of these programs are not in the PATH.
pub(crate) fn missing<'a>(programs: &[&'a str]) -> Vec<&'a str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_there = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    programs.iter().copied().filter(|program| !is_there(program)).collect()
}

fn quote(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text += &argument.to_string_lossy();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_quoted_with_what_it_said() {
        let mut command = Command::new("sh");
        let error = capture(command.args(["-c", "echo no >&2; exit 3"])).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("sh -c") && text.contains("3\nno"), "{text}");
    }

    #[test]
    fn missing_programs_are_named() {
        assert_eq!(missing(&["sh", "no-such-program"]), ["no-such-program"]);
    }
}
