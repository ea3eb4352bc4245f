//! Scan tokens: parts of a scan as bytes, for other tasks, processes and machines.

mod builder;
mod errors;
mod message;
mod open;
mod split;

use prost::Message;
use proto::kudu::client::ScanTokenPb;

pub use builder::TokenBuilder;
pub use errors::ScanTokenError;

use crate::table::TabletLocation;

/// A part of a scan: one tablet, or a range of keys of one. Made by [`ScanBuilder::tokens`](crate::ScanBuilder::tokens),
/// opened by [`Client::open_token`](crate::Client::open_token).
///
/// Its bytes are those of Kudu's `ScanTokenPB`: a token of this client can be opened by the Java and C++ clients, and theirs
/// by this one. They hold the table and the columns, the conditions, the bounds, the state to read, the options of the scan,
/// and the newest timestamp that the maker had seen; not the [layout](crate::Layout), which is the reader's affair.
///
/// A limit counts for each token by itself. With [`ReadMode::SnapshotNow`](crate::ReadMode::SnapshotNow) each token shows
/// the moment of its own first answer; for one state of the whole table take a timestamp
/// ([`ReadMode::Snapshot`](crate::ReadMode::Snapshot)).
///
/// ```no_run
/// # async fn example(client: client::Client, table: client::Table) -> Result<(), Box<dyn std::error::Error>> {
/// for token in table.scan().project(&["name"]).tokens().build().await? {
///     let bytes = token.to_bytes(); // to a worker, which goes on like this
///     let token = client::ScanToken::from_bytes(&bytes)?;
///     let rows = client.open_token(&token).await?.start()?.count().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ScanToken {
    message: ScanTokenPb,
    tablet: Option<TabletLocation>,
    bytes_estimate: Option<u64>,
}

impl ScanToken {
    /// Reads a token that this or another client has made.
    ///
    /// # Errors
    /// [`ScanTokenError`]: these are no bytes of a token, or it asks for something that this client does not know.
    pub fn from_bytes(bytes: &[u8]) -> Result<ScanToken, ScanTokenError> {
        let message = ScanTokenPb::decode(bytes)
            .map_err(|source| ScanTokenError::Malformed { source: source.into() })?;
        // There is none so far.
        match message.feature_flags.first() {
            Some(feature) => Err(ScanTokenError::Feature { feature: *feature }),
            None => Ok(ScanToken { message, tablet: None, bytes_estimate: None }),
        }
    }

    /// The bytes of its `ScanTokenPB`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.message.encode_to_vec()
    }

    /// The id of the table, when the token tells it.
    pub fn table_id(&self) -> Option<&str> {
        let metadata = self.message.table_metadata.as_ref().and_then(|table| table.table_id.as_deref());
        metadata.or(self.message.table_id.as_deref()).filter(|id| !id.is_empty())
    }

    /// The name that the table had, when the token tells it.
    pub fn table_name(&self) -> Option<&str> {
        let metadata = self.message.table_metadata.as_ref().and_then(|table| table.table_name.as_deref());
        metadata.or(self.message.table_name.as_deref()).filter(|name| !name.is_empty())
    }

    /// Where its tablet was when the token was made here; `None` for one that was read from bytes.
    pub fn tablet(&self) -> Option<&TabletLocation> {
        self.tablet.as_ref()
    }

    /// About how many bytes its columns take on disk, for tokens made here by [`TokenBuilder::split_bytes`].
    pub fn bytes_estimate(&self) -> Option<u64> {
        self.bytes_estimate
    }
}
