//! The service of rpc-bench, generated from `calculator.proto` (a test compares; it tells how to make it anew).
#![allow(missing_docs, unreachable_pub, dead_code)]

include!("gen/kudu.rpc_test.rs");

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_checked_in_calculator_is_fresh() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench/rpc");
        let generated = rpc_build::Generator::new()
            .include(&folder)
            .file("calculator.proto")
            .runtime("::rpc_core")
            .generate()
            .unwrap();
        if std::env::var_os("NYALA_WRITE_GENERATED").is_some() {
            generated.write_to(folder.join("gen")).unwrap();
        }
        let name = "kudu.rpc_test.rs";
        let found = std::fs::read_to_string(folder.join("gen").join(name)).unwrap_or_default();
        assert!(found == generated.files[name], "run this test with NYALA_WRITE_GENERATED=1");
    }
}
