use crate::required::MessageTable;

/// One method of one RPC service, as a type without values that proxies and servers are generic over.
///
/// The markers are generated, see [`methods`](crate::methods); `rpc-build` makes them for users' own `.proto` files.
pub trait Method: Send + Sync + 'static {
    /// The request message.
    type Request: prost::Message + Default + 'static;
    /// The response message.
    type Response: prost::Message + Default + 'static;
    /// Full name of the service, `kudu.master.MasterService`.
    const SERVICE: &'static str;
    /// Name of the method within the service, `Ping`.
    const NAME: &'static str;
    /// Whether the server remembers answers by request id, so that a retried call runs once (option
    /// `track_rpc_result`).
    const TRACKED: bool;
    /// Kudu's name of the check that decides who may call (option `authz_method`, else the service's
    /// `default_authz_method`); empty if there is none.
    const AUTHZ: &'static str;
    /// Required fields of the request, for [`required::check`](crate::required::check).
    const REQUEST: &'static MessageTable;
    /// Required fields of the response.
    const RESPONSE: &'static MessageTable;
}
