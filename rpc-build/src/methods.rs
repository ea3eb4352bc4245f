//! One marker type per RPC method, with the method options that prost-build drops.

use crate::required::Tables;
use crate::{GenerateError, Generator};
use heck::ToSnakeCase;
use prost_build::{Comments, Method, Service, ServiceGenerator};
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, ServiceDescriptor, Value};
use std::fmt::Write;

/// Fails on the first method that streams.
pub(crate) fn refuse_streaming(pool: &DescriptorPool) -> Result<(), GenerateError> {
    let streaming = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .find(|method| method.is_client_streaming() || method.is_server_streaming());
    match streaming {
        None => Ok(()),
        Some(method) => Err(GenerateError::Streaming {
            service: method.parent_service().full_name().to_owned(),
            method: method.name().to_owned(),
        }),
    }
}

/// Writes the module of a service into its package's file.
pub(crate) struct Markers {
    generator: Generator,
    pool: DescriptorPool,
}

impl Markers {
    pub(crate) fn new(generator: &Generator, pool: &DescriptorPool) -> Self {
        Self { generator: generator.clone(), pool: pool.clone() }
    }

    fn marker(&self, tables: &Tables<'_>, method: &Method, facts: &MethodDescriptor, out: &mut String) {
        let name = &method.proto_name;
        doc(&method.comments, &format!("`{}`", facts.full_name()), out);
        let authz = authz(facts);
        let tracked = extension(facts.options(), "kudu.rpc.track_rpc_result") == Some(Value::Bool(true));
        let package = facts.parent_service().package_name().to_owned();
        write!(
            out,
            "#[derive(Clone, Copy, Debug)]
            pub struct {name};
            impl {runtime}::Method for {name} {{
                type Request = {request};
                type Response = {response};
                const SERVICE: &'static str = SERVICE;
                const NAME: &'static str = \"{name}\";
                const TRACKED: bool = {tracked};
                const AUTHZ: &'static str = {authz:?};
                const REQUEST: &'static {runtime}::required::MessageTable = &{request_table};
                const RESPONSE: &'static {runtime}::required::MessageTable = &{response_table};
            }}
            ",
            runtime = self.generator.runtime,
            request = below(&method.input_type),
            response = below(&method.output_type),
            request_table = tables.path(&package, 1, &facts.input()),
            response_table = tables.path(&package, 1, &facts.output()),
        )
        .unwrap_or_default(); // writing to a String cannot fail
    }
}

impl ServiceGenerator for Markers {
    fn generate(&mut self, service: Service, buf: &mut String) {
        let full_name = match service.package.as_str() {
            "" => service.proto_name.clone(),
            package => format!("{package}.{}", service.proto_name),
        };
        let Some(facts) = self.pool.get_service_by_name(&full_name) else { return };
        let tables = Tables::new(&self.generator);
        doc(&service.comments, &format!("Methods of `{full_name}`."), buf);
        buf.push_str(&format!("pub mod {} {{\n", module_name(&facts)));
        buf.push_str("/// Full name of the service, as it travels in a request header.\n");
        buf.push_str(&format!("pub const SERVICE: &str = {full_name:?};\n"));
        for (method, facts) in service.methods.iter().zip(facts.methods()) {
            self.marker(&tables, method, &facts, buf);
        }
        buf.push_str("}\n");
    }
}

/// `MasterService` lives in `mod master_service`.
fn module_name(service: &ServiceDescriptor) -> String {
    service.name().to_snake_case()
}

/// prost's path of a type, which is relative to the package's module, seen from a module below it.
fn below(path: &str) -> String {
    let absolute = path.starts_with("::") || path.starts_with("crate::") || path.starts_with('(');
    if absolute { path.to_owned() } else { format!("super::{path}") }
}

/// The comments of the `.proto` file, or `instead` where there are none.
fn doc(comments: &Comments, instead: &str, out: &mut String) {
    if comments.leading.is_empty() && comments.trailing.is_empty() {
        out.push_str(&format!("/// {instead}\n"));
    } else {
        comments.append_with_indent(0, out);
    }
}

/// The method's own option, else the service's default, else nothing.
fn authz(method: &MethodDescriptor) -> String {
    let value = extension(method.options(), "kudu.rpc.authz_method")
        .or_else(|| extension(method.parent_service().options(), "kudu.rpc.default_authz_method"));
    match value {
        Some(Value::String(name)) => name,
        _ => String::new(),
    }
}

/// An option that is set, by the full name of its extension.
fn extension(options: DynamicMessage, name: &str) -> Option<Value> {
    options.extensions().find(|(extension, _)| extension.full_name() == name).map(|(_, value)| value.clone())
}
