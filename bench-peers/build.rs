//! The calculator's stubs for tonic, without a compiler of .proto files.

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
}
