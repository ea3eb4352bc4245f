//! The texts of `--help` and `--helpfull`.

use std::fmt::Write;

use crate::flags::FlagSet;

/// The flags that act, with what they do.
pub(crate) fn short(flags: &FlagSet) -> String {
    let mut text =
        format!("{} takes these flags (--name=value, dashes equal underscores):\n\n", flags.program());
    for (spec, about) in flags.acting() {
        let _ = writeln!(
            text,
            "  --{} ({}, default {})\n      {about}",
            spec.name,
            spec.kind,
            shown(spec.default)
        );
    }
    text.push_str(
        "\n  --flagfile=FILE     more flags, one a line\n  --help, --helpfull  this list, or all flags\n  --version\n\n\
         All other flags of Kudu 1.18.1 are accepted and have no effect; each one given is named in the log.\n",
    );
    text
}

/// All flags by name; those that act are marked.
pub(crate) fn full(flags: &FlagSet) -> String {
    let mut text =
        format!("{} knows these flags; a star marks those that have an effect:\n\n", flags.program());
    for spec in flags.specs() {
        let star = if flags.acts_on(spec.name) { '*' } else { ' ' };
        let _ = writeln!(text, "{star} --{} ({}, default {})", spec.name, spec.kind, shown(spec.default));
    }
    text
}

fn shown(default: &str) -> String {
    if default.is_empty() { "\"\"".to_owned() } else { default.to_owned() }
}
