//! Tables of required fields: what prost forgets about proto2, for `proto::required::check`.

use crate::Generator;
use heck::ToShoutySnakeCase;
use prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use std::collections::{BTreeMap, BTreeSet};

/// The module `required_tables` of each package that is ours and has a required field somewhere, by package.
pub(crate) fn generate(generator: &Generator, pool: &DescriptorPool) -> BTreeMap<String, String> {
    let tables = Tables::new(generator);
    let mut statics: BTreeMap<String, String> = BTreeMap::new();
    for message in pool.all_messages() {
        let package = message.package_name();
        if generator.is_ours(package) && has_required(&message) {
            statics.entry(package.to_owned()).or_default().push_str(&tables.table(&message));
        }
    }
    for text in statics.values_mut() {
        *text = format!(
            "/// Required fields of this package's messages; a message without any, in itself or below, has no table.\n\
             pub mod required_tables {{\n    use {}::required::{{FieldRule, Kind, MessageTable}};\n\n{text}}}\n",
            generator.runtime
        );
    }
    statics
}

/// Names the tables.
pub(crate) struct Tables<'a> {
    generator: &'a Generator,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(generator: &'a Generator) -> Self {
        Self { generator }
    }

    /// The Rust path of a message's table, seen from `depth` modules below the module of `from`.
    pub(crate) fn path(&self, from: &str, depth: usize, message: &MessageDescriptor) -> String {
        if !has_required(message) {
            return format!("{}::required::MessageTable::EMPTY", self.generator.runtime);
        }
        let module = self.generator.module_path(from, depth, message.package_name());
        format!("{module}required_tables::{}", static_name(message))
    }

    fn table(&self, message: &MessageDescriptor) -> String {
        let mut fields: Vec<_> = message.fields().collect();
        fields.sort_by_key(FieldDescriptor::number);
        let rules: String = fields.iter().filter_map(|field| self.rule(message, field)).collect();
        format!(
            "    /// `{}`\n    pub static {}: MessageTable = MessageTable {{\n        fields: &[\n{rules}        ],\n    }};\n",
            message.full_name(),
            static_name(message)
        )
    }

    /// A line for a field that is required or leads to one, else nothing.
    fn rule(&self, owner: &MessageDescriptor, field: &FieldDescriptor) -> Option<String> {
        let required = field.cardinality() == Cardinality::Required;
        let kind = match field.kind() {
            Kind::Message(message) if has_required(&message) => {
                let path = self.path(owner.package_name(), 1, &message);
                // Tables of one package are siblings.
                let path = path.strip_prefix("super::required_tables::").unwrap_or(&path);
                let group = if field.is_group() { "Group" } else { "Message" };
                format!("Kind::{group}(&{path})")
            }
            _ if !required => return None,
            Kind::Message(_) if field.is_group() => "Kind::Group(&MessageTable::EMPTY)".to_owned(),
            Kind::Message(_) => "Kind::Message(&MessageTable::EMPTY)".to_owned(),
            Kind::String | Kind::Bytes => "Kind::Bytes".to_owned(),
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => "Kind::Fixed64".to_owned(),
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => "Kind::Fixed32".to_owned(),
            Kind::Enum(values) => {
                let known: BTreeSet<i32> = values.values().map(|value| value.number()).collect();
                format!("Kind::Enum(&{known:?})").replace('{', "[").replace('}', "]")
            }
            _ => "Kind::Varint".to_owned(),
        };
        Some(format!(
            "            FieldRule {{ number: {}, name: {:?}, required: {required}, repeated: {}, kind: {kind} }},\n",
            field.number(),
            field.name(),
            field.is_list() || field.is_map(),
        ))
    }
}

/// `kudu.client.ScanTokenPB.Inner` is `SCAN_TOKEN_PB_INNER` in its package's module.
fn static_name(message: &MessageDescriptor) -> String {
    let package = message.package_name();
    let name = message.full_name();
    name.strip_prefix(package).unwrap_or(name).to_shouty_snake_case()
}

/// Whether the message, or any that it may hold, has a required field.
fn has_required(message: &MessageDescriptor) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![message.clone()];
    while let Some(message) = open.pop() {
        if !seen.insert(message.full_name().to_owned()) {
            continue;
        }
        for field in message.fields() {
            if field.cardinality() == Cardinality::Required {
                return true;
            }
            if let Kind::Message(inner) = field.kind() {
                open.push(inner);
            }
        }
    }
    false
}
