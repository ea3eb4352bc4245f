//! The calculator's stubs: for tonic without a compiler of .proto files, for capnp-rpc by Cap'n Proto's own (`capnp`).

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let add = Method::builder()
        .name("add")
        .route_name("Add")
        .input_type("crate::calculator::tonic::AddRequest")
        .output_type("crate::calculator::tonic::AddResponse")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service = Service::builder().package("rpc_test").name("Calculator").method(add).build();
    Builder::new().compile(&[service]);
    println!("cargo::rerun-if-changed=schema/calculator.capnp");
    if let Err(error) =
        capnpc::CompilerCommand::new().src_prefix("schema").file("schema/calculator.capnp").run()
    {
        panic!("the program capnp is needed (Debian: apt-get install capnproto): {error}");
    }
}
