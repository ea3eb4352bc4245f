//! Requests of every method that are right by the `.proto` files and mean nothing, or the wrong thing: no server ends,
//! no handler panics.

mod common;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use client::{Client, Table};
use common::raw::{RawCall, RawClient};
use common::{a_good_client_is_served, count, master, row, run, start, table};
use mini_cluster::MiniCluster;
use net_addr::SockAddr;
use prost::Message;
use prost_reflect::{Cardinality, DescriptorPool, DynamicMessage, Kind, MessageDescriptor, Value};

/// Composes messages of any type, with words that mean something to this cluster.
struct Composer {
    random: fastrand::Rng,
    words: Vec<String>,
    /// Fields of this name stay empty.
    without: &'static [&'static str],
}

impl Composer {
    fn message(&mut self, descriptor: &MessageDescriptor, depth: u32) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields() {
            let is_required = field.cardinality() == Cardinality::Required;
            let is_wanted = match is_required {
                true => self.random.u32(..50) > 0,
                false => depth > 0 && self.random.u32(..5) > 1,
            };
            if !is_wanted || self.without.contains(&field.name()) || field.is_map() {
                continue;
            }
            let value = if field.is_list() {
                let length = self.random.usize(..4);
                Value::List((0..length).map(|_| self.value(&field.kind(), depth)).collect())
            } else {
                self.value(&field.kind(), depth)
            };
            message.set_field(&field, value);
        }
        message
    }

    fn value(&mut self, kind: &Kind, depth: u32) -> Value {
        let number = *self.random.choice(&[0, 1, 2, 3, 7, -1, i64::MAX, i64::MIN]).unwrap();
        match kind {
            Kind::Double => Value::F64(number as f64),
            Kind::Float => Value::F32(f32::NAN),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                Value::I32(number.clamp(i32::MIN.into(), i32::MAX.into()) as i32)
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(number as u32),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(number as u64),
            Kind::Bool => Value::Bool(self.random.bool()),
            Kind::String => Value::String(self.word()),
            Kind::Bytes => Value::Bytes(match self.random.bool() {
                true => self.word().into(),
                false => (0..self.random.usize(..40)).map(|_| self.random.u8(..)).collect::<Bytes>(),
            }),
            Kind::Message(message) => Value::Message(self.message(message, depth.saturating_sub(1))),
            Kind::Enum(values) => {
                let values: Vec<i32> = values.values().map(|value| value.number()).collect();
                Value::EnumNumber(*self.random.choice(&values).unwrap())
            }
        }
    }

    fn word(&mut self) -> String {
        self.random.choice(&self.words).unwrap().clone()
    }
}

/// All `.proto` files below this folder.
fn proto_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(proto_files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn pool() -> DescriptorPool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/proto");
    let set = protox::compile(proto_files(&folder), [folder]).unwrap();
    DescriptorPool::from_file_descriptor_set(set).unwrap()
}

/// Sends each method that `takes` this many requests; how many of all were taken as calls at least.
fn torment(
    address: &SockAddr,
    composer: &mut Composer,
    rounds: usize,
    takes: impl Fn(&str) -> bool,
) -> usize {
    let pool = pool();
    let mut client = RawClient::open(address);
    let (mut id, mut taken) = (0, 0);
    for service in pool.services() {
        for method in service.methods().filter(|method| takes(method.name())) {
            for _ in 0..rounds {
                id += 1;
                let body = composer.message(&method.input(), 5);
                let call = RawCall {
                    id,
                    service: service.full_name(),
                    method: method.name(),
                    // Some requests have to wait for what never comes.
                    timeout_ms: Some(50),
                    request_id: Some(("nonsense", id.into(), id.into(), 0)),
                    body: &body.encode_to_vec(),
                    ..Default::default()
                };
                let answer = client.call(&call);
                assert!(
                    !answer.message().starts_with("Runtime error"),
                    "{} panicked at {body:?}: {answer:?}",
                    method.full_name()
                );
                taken += usize::from(answer.result.is_ok());
            }
        }
    }
    taken
}

async fn words(victim: &Table, cluster: &MiniCluster) -> Vec<String> {
    let mut words: Vec<String> =
        ["", "id", "text", "x", "a\0b", "\u{1f98c}", "127.0.0.1", victim.name(), victim.id()]
            .map(str::to_owned)
            .into();
    words.extend(victim.tablets().await.unwrap().into_iter().map(|tablet| tablet.id));
    words.extend(cluster.tservers().into_iter().map(|server| server.uuid));
    words
}

#[test]
fn requests_without_sense_end_no_server() {
    let cluster = start(MiniCluster::builder());
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let safe = table(&client, "safe", 2).await;
        let victim = table(&client, "victim", 2).await;
        client.session().build().apply(row(&safe, 1)).await.unwrap();
        // Registrations would give the master tablet servers that do not exist, and quiet would refuse the scan below.
        let mut composer = Composer {
            random: fastrand::Rng::with_seed(11),
            words: words(&victim, &cluster).await,
            without: &["registration", "quiesce"],
        };
        let server: SockAddr = cluster.tservers()[0].address.parse().unwrap();
        for address in [master(&cluster), server] {
            let taken = torment(&address, &mut composer, 60, |_| true);
            assert!(taken > 400, "{taken} requests got as far as a handler at {address}");
        }
        client.session().build().apply(row(&safe, 2)).await.unwrap();
        assert_eq!(count(&safe).await, 2);
        a_good_client_is_served(&cluster).await;
    });
}

#[test]
fn heartbeats_without_sense_do_not_end_the_master() {
    let cluster = start(MiniCluster::builder());
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let victim = table(&client, "victim", 2).await;
        let mut composer = Composer {
            random: fastrand::Rng::with_seed(13),
            words: words(&victim, &cluster).await,
            without: &[],
        };
        let taken = torment(&master(&cluster), &mut composer, 3000, |method| method == "TSHeartbeat");
        assert!(taken > 100, "{taken} heartbeats were taken");
        assert_eq!(client.list_tables("victim").await.unwrap().len(), 1);
        assert!(!client.list_tablet_servers().await.unwrap().is_empty());
        // Nobody knows by now where the tablets are; the master still answers.
        client.table_exists("victim").await.unwrap();
    });
}
