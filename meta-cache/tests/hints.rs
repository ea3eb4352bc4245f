//! Where others knew tablets to be: a start for whoever knows nothing, no news for whoever does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meta_cache::{
    Answer, AnswerError, Endpoint, Lookup, MetaCache, Options, Reach, ReplicaAnswer, Role, ServerAnswer,
    Tablet, TabletAnswer,
};

fn answer(id: &str, start: &[u8], end: &[u8], server: ServerAnswer) -> Answer {
    let replicas = vec![ReplicaAnswer { server: 0, role: Role::Leader }];
    let tablet = TabletAnswer { id: id.into(), start: start.into(), end: end.into(), replicas };
    Answer { ttl: Duration::from_secs(60), servers: vec![server], tablets: vec![tablet] }
}

fn server(port: u16) -> ServerAnswer {
    ServerAnswer::new("s").address("here.example", port)
}

fn cache() -> MetaCache {
    let mut options = Options::default();
    options.is_local_host = Arc::new(|host| host == "here.example");
    MetaCache::new(options)
}

fn at(cache: &MetaCache, key: &[u8], now: Instant) -> Option<Arc<Tablet>> {
    match cache.lookup("t", key, Reach::Point, now) {
        Lookup::Hit(tablet) => Some(tablet),
        Lookup::Ask(_) => None,
        other => panic!("a tablet or a question was expected, not {other:?}"),
    }
}

#[test]
fn a_hint_spares_the_question_for_its_tablet_alone_and_for_its_time() {
    let (cache, now) = (cache(), Instant::now());
    cache.insert_hint("t", answer("a", b"b", b"d", server(1)), now).unwrap();
    assert_eq!(at(&cache, b"c", now).unwrap().id(), "a");
    assert_eq!(at(&cache, b"c", now).unwrap().time_left(now), Duration::from_secs(60));
    assert!(at(&cache, b"a", now).is_none() && at(&cache, b"d", now).is_none(), "gaps are not hinted at");
    assert!(at(&cache, b"c", now + Duration::from_secs(61)).is_none());
}

#[test]
fn what_the_master_said_is_believed_before_any_hint() {
    let (cache, now) = (cache(), Instant::now());
    let Lookup::Ask(asking) = cache.lookup("t", b"c", Reach::Point, now) else { panic!("nothing is known") };
    let by_unix = server(2).unix_path("@s");
    cache.insert(asking, answer("new", b"c", b"e", by_unix), now).unwrap();
    cache.insert_hint("t", answer("old", b"b", b"d", server(1)), now).unwrap();
    let tablet = at(&cache, b"c", now).unwrap();
    assert_eq!(tablet.id(), "new");
    let contact = cache.endpoint(tablet.replicas()[0].server(), now);
    assert!(matches!(contact, Endpoint::Unix { host, .. } if host.port == 2), "and of its server, too");
    cache.invalidate(&tablet);
    cache.insert_hint("t", answer("old", b"b", b"d", server(1)), now).unwrap();
    assert_eq!(at(&cache, b"c", now).unwrap().id(), "old", "what is not believed any more is no knowledge");
}

#[test]
fn a_hint_that_contradicts_itself_is_refused() {
    let (cache, now) = (cache(), Instant::now());
    let error = cache.insert_hint("t", answer("a", b"d", b"b", server(1)), now).unwrap_err();
    assert!(matches!(error, AnswerError::OutOfOrder { .. }));
    let mut hint = answer("a", b"b", b"d", server(1));
    hint.servers.clear();
    assert!(matches!(cache.insert_hint("t", hint, now), Err(AnswerError::UnknownServer { .. })));
    assert!(at(&cache, b"c", now).is_none());
}
