//! The client without async: for plain `#[test]`s and scripts.
//!
//! ```
//! use client::{blocking::Client, schema::{Column, DataType, Schema}};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = mini_cluster::MiniCluster::builder().start_blocking()?;
//! # let masters = cluster.master_address();
//! let client = Client::connect(masters)?;
//! let schema = Schema::new(vec![Column::new("id", DataType::Int64)], 1)?;
//! let table = client.create(client.create_table("numbers", schema).hash_partition(&["id"], 2).replicas(1))?;
//! client.session(|session| session).apply(table.insert().with("id", 7i64)?)?;
//! for batch in client.scan(table.scan())? {
//!     assert_eq!(batch?.fixed::<i64>("id")?.get(0), Some(7));
//! }
//! # Ok(()) }
//! ```
//!
//! The work is done on a thread of the client's own, so these calls may be made on any thread, but not inside of an async
//! task, which they would hold up.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::{
    ApplyError, Batch, ClientBuilder, ConnectError, CreateTableError, FlushError, MasterError,
    OpenTableError, Operation, RowErrors, ScanBuilder, ScanError, ScanToken, ScanTokenError, SessionBuilder,
    Table, TableCreator, TableInfo, TableStatistics, TokenBuilder,
};

/// A connection to a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    worker: Arc<Worker>,
}

impl Client {
    /// As [`crate::Client::connect`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(masters: impl Into<String>) -> Result<Client, ConnectError> {
        Client::connect_with(crate::Client::builder(masters))
    }

    /// As [`ClientBuilder::connect`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect_with(builder: ClientBuilder) -> Result<Client, ConnectError> {
        let worker = Worker::start().map_err(|source| ConnectError::Thread { source: Arc::new(source) })?;
        let client = worker.wait(builder.connect())?;
        Ok(Client { client, worker: Arc::new(worker) })
    }

    /// The async client behind it, whose futures run in [`block_on`](Self::block_on).
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    /// Runs a future on the client's thread and waits for it.
    pub fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.worker.wait(future)
    }

    /// As [`crate::Client::list_tables`].
    ///
    /// # Errors
    /// [`MasterError`].
    pub fn list_tables(&self, filter: &str) -> Result<Vec<TableInfo>, MasterError> {
        let (client, filter) = (self.client.clone(), filter.to_owned());
        self.worker.wait(async move { client.list_tables(&filter).await })
    }

    /// Starts the definition of a table, for [`create`](Self::create).
    pub fn create_table(&self, name: impl Into<String>, schema: schema::Schema) -> TableCreator {
        self.client.create_table(name, schema)
    }

    /// As [`TableCreator::create`].
    ///
    /// # Errors
    /// [`CreateTableError`].
    pub fn create(&self, table: TableCreator) -> Result<Table, CreateTableError> {
        self.worker.wait(table.create())
    }

    /// As [`crate::Client::open_table`].
    ///
    /// # Errors
    /// [`OpenTableError`].
    pub fn open_table(&self, name: &str) -> Result<Table, OpenTableError> {
        let (client, name) = (self.client.clone(), name.to_owned());
        self.worker.wait(async move { client.open_table(&name).await })
    }

    /// As [`crate::Client::table_exists`].
    ///
    /// # Errors
    /// [`MasterError`].
    pub fn table_exists(&self, name: &str) -> Result<bool, MasterError> {
        let (client, name) = (self.client.clone(), name.to_owned());
        self.worker.wait(async move { client.table_exists(&name).await })
    }

    /// As [`crate::Client::delete_table`].
    ///
    /// # Errors
    /// [`MasterError`].
    pub fn delete_table(&self, name: &str) -> Result<(), MasterError> {
        let (client, name) = (self.client.clone(), name.to_owned());
        self.worker.wait(async move { client.delete_table(&name).await })
    }

    /// As [`crate::Client::table_statistics`].
    ///
    /// # Errors
    /// [`MasterError`].
    pub fn table_statistics(&self, name: &str) -> Result<TableStatistics, MasterError> {
        let (client, name) = (self.client.clone(), name.to_owned());
        self.worker.wait(async move { client.table_statistics(&name).await })
    }

    /// Makes a session from its definition, as [`inner`](Self::inner)'s [`session`](crate::Client::session) gives it.
    pub fn session(&self, define: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Session {
        let builder = define(self.client.session());
        let session = self.worker.wait(async move { builder.build() });
        Session { session, worker: self.worker.clone() }
    }

    /// Makes a scan's tokens, as [`TokenBuilder::build`].
    ///
    /// # Errors
    /// [`ScanError`].
    pub fn tokens(&self, tokens: TokenBuilder) -> Result<Vec<ScanToken>, ScanError> {
        self.worker.wait(async move { tokens.build().await })
    }

    /// As [`crate::Client::open_token`].
    ///
    /// # Errors
    /// [`ScanTokenError`].
    pub fn open_token(&self, token: &ScanToken) -> Result<ScanBuilder, ScanTokenError> {
        let (client, token) = (self.client.clone(), token.clone());
        self.worker.wait(async move { client.open_token(&token).await })
    }

    /// Starts a scan.
    ///
    /// # Errors
    /// [`ScanError`] when the definition does not fit the table.
    pub fn scan(&self, scan: ScanBuilder) -> Result<Scan, ScanError> {
        let scan = self.worker.wait(async move { scan.start() })?;
        Ok(Scan { scan, worker: self.worker.clone() })
    }
}

/// A stream of writes. Cheap to clone; all clones are one session.
#[derive(Clone, Debug)]
pub struct Session {
    session: crate::Session,
    worker: Arc<Worker>,
}

impl Session {
    /// As [`crate::Session::apply`].
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn apply(&self, operation: Operation) -> Result<(), ApplyError> {
        let session = self.session.clone();
        self.worker.wait(async move { session.apply(operation).await })
    }

    /// As [`crate::Session::flush`].
    ///
    /// # Errors
    /// [`FlushError`].
    pub fn flush(&self) -> Result<(), FlushError> {
        let session = self.session.clone();
        self.worker.wait(async move { session.flush().await })
    }

    /// As [`crate::Session::take_errors`].
    pub fn take_errors(&self) -> RowErrors {
        self.session.take_errors()
    }
}

/// A running scan: an iterator of batches that ends after the first error.
#[derive(Debug)]
pub struct Scan {
    scan: crate::Scan,
    worker: Arc<Worker>,
}

impl Iterator for Scan {
    type Item = Result<Batch, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The task that fills the channel runs on the worker; this thread only waits.
        let _keep = &self.worker;
        self.scan.blocking_next()
    }
}

/// A thread with a runtime on it.
#[derive(Debug)]
struct Worker {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    fn start() -> std::io::Result<Worker> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("kudu-client".into()).spawn(move || {
            // Told to stop or forgotten: both end it.
            drop(runtime.block_on(stopped));
            // A name look-up that hangs must not hang this thread as well.
            runtime.shutdown_background();
        })?;
        Ok(Worker { runtime: handle, stop: Some(stop), thread: Some(thread) })
    }

    fn wait<F>(&self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            // The receiver below waits for exactly this.
            drop(sender.send(future.await));
        });
        receiver
            .recv()
            .expect("the worker runs as long as its owner, and a panic of the future is a panic here")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        // On the thread itself, in the last future that held the client, there is nothing to wait for.
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
        {
            // A panic there has been printed.
            drop(thread.join());
        }
    }
}
