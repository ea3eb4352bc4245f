//! Developer commands: cluster, demo, gen, lint, bench, interop, test.

fn main() {}
