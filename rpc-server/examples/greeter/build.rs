//! Compiles `proto/greeter.proto`; no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut generator = rpc_build::Generator::new();
    generator.include("proto").file("greeter.proto").runtime("::rpc_core");
    generator.generate()?.write_to(std::env::var("OUT_DIR")?)?;
    Ok(())
}
