//! The file that tells who started a server where it listens: `--server_dump_info_path`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use prost::Message as _;
use proto::kudu::server::ServerStatusPb;

use crate::flags::FlagSet;

const PATH_FLAG: &str = "server_dump_info_path";
const FORMAT_FLAG: &str = "server_dump_info_format";

/// The file cannot be written; the server does not start, as whoever waits for the file would wait for ever.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InfoFileError {
    /// The format is neither of the two.
    #[error("--{FORMAT_FLAG}: {0:?} is neither pb nor json")]
    Format(String),
    /// The system refused.
    #[error("--{PATH_FLAG}: cannot write {}: {source}", path.display())]
    #[non_exhaustive]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes `status` where `--server_dump_info_path` says, as a ServerStatusPB or as JSON by `--server_dump_info_format`. The
/// file appears whole or not at all. Does nothing when no path is given.
///
/// # Errors
/// [`InfoFileError`] names the flag.
pub fn write(flags: &FlagSet, status: &ServerStatusPb) -> Result<(), InfoFileError> {
    let path = flags.string(PATH_FLAG);
    if path.is_empty() {
        return Ok(());
    }
    let format = flags.string(FORMAT_FLAG).to_ascii_lowercase();
    let content = match format.as_str() {
        "pb" => status.encode_to_vec(),
        "json" => json(status).into_bytes(),
        _ => return Err(InfoFileError::Format(format)),
    };
    let path = Path::new(&path);
    let beside = path.with_extension("writing");
    fs::write(&beside, content)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|source| InfoFileError::Write { path: path.to_owned(), source })
}

/// Hosts and ids hold nothing that JSON would have to escape.
fn json(status: &ServerStatusPb) -> String {
    let node = &status.node_instance;
    let addresses: Vec<String> = status
        .bound_rpc_addresses
        .iter()
        .map(|address| format!(r#"{{"host":"{}","port":{}}}"#, address.host, address.port))
        .collect();
    format!(
        r#"{{"node_instance":{{"permanent_uuid":"{}","instance_seqno":{}}},"bound_rpc_addresses":[{}]}}"#,
        String::from_utf8_lossy(&node.permanent_uuid),
        node.instance_seqno,
        addresses.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerIdentity;
    use crate::flags::Role;

    fn written(format: &str) -> Result<Vec<u8>, InfoFileError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("info");
        let flags = FlagSet::builder(Role::Master, "test").build();
        flags
            .parse([format!("--{PATH_FLAG}={}", path.display()), format!("--{FORMAT_FLAG}={format}")])
            .unwrap();
        let bound = ["127.0.0.1:7051".parse().unwrap()];
        write(&flags, &ServerIdentity::new().status(&bound))?;
        Ok(fs::read(path).unwrap())
    }

    #[test]
    fn both_formats_tell_the_port() {
        let status = ServerStatusPb::decode(written("pb").unwrap().as_slice()).unwrap();
        assert_eq!(status.bound_rpc_addresses[0].port, 7051);
        let text = String::from_utf8(written("json").unwrap()).unwrap();
        assert!(text.contains(r#"[{"host":"127.0.0.1","port":7051}]"#), "{text}");
    }

    #[test]
    fn an_unknown_format_is_named() {
        let error = written("xml").unwrap_err();
        assert!(error.to_string().contains("\"xml\" is neither pb nor json"), "{error}");
    }
}
