//! Which replica, and by which way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meta_cache::{
    Answer, Endpoint, Lookup, MetaCache, Options, Reach, ReplicaAnswer, Role, Selection, ServerAnswer,
    Tablet, TabletAnswer,
};

fn tablet_on(
    cache: &MetaCache,
    table: &str,
    servers: Vec<ServerAnswer>,
    roles: &[Role],
    now: Instant,
) -> Arc<Tablet> {
    let asking = match cache.lookup(table, b"k", Reach::Point, now) {
        Lookup::Ask(asking) => asking,
        Lookup::Hit(tablet) => {
            cache.invalidate(&tablet);
            return tablet_on(cache, table, servers, roles, now);
        }
        other => panic!("unexpected {other:?}"),
    };
    let replicas =
        roles.iter().enumerate().map(|(server, role)| ReplicaAnswer { server, role: *role }).collect();
    let tablet = TabletAnswer { id: format!("{table}-1"), start: vec![], end: vec![], replicas };
    cache
        .insert(asking, Answer { ttl: Duration::from_secs(300), servers, tablets: vec![tablet] }, now)
        .expect("good");
    match cache.lookup(table, b"k", Reach::Point, now) {
        Lookup::Hit(tablet) => tablet,
        other => panic!("unexpected {other:?}"),
    }
}

fn three_remote() -> Vec<ServerAnswer> {
    ["a", "b", "c"].map(|uuid| ServerAnswer::new(uuid).address(format!("{uuid}.example"), 7050)).to_vec()
}

fn remote_options() -> Options {
    let mut options = Options::default();
    options.is_local_host = Arc::new(|host| host == "here.example");
    options
}

fn uuid(server: Option<Arc<meta_cache::Server>>) -> Option<String> {
    server.map(|server| server.uuid().to_owned())
}

#[test]
fn a_leader_that_says_it_is_none_is_not_asked_again_until_the_master_names_it_anew() {
    let (cache, now) = (MetaCache::new(remote_options()), Instant::now());
    let roles = [Role::Follower, Role::Leader, Role::Follower];
    let tablet = tablet_on(&cache, "t", three_remote(), &roles, now);
    assert_eq!(uuid(cache.pick(&tablet, Selection::LeaderOnly, &[])).as_deref(), Some("b"));
    cache.mark_not_leader(&tablet, "b");
    assert_eq!(uuid(cache.pick(&tablet, Selection::LeaderOnly, &[])), None);
    assert_eq!(
        uuid(cache.pick(&tablet, Selection::First, &["a"])).as_deref(),
        Some("b"),
        "it still serves reads"
    );
    let tablet = tablet_on(&cache, "t", three_remote(), &roles, now);
    assert_eq!(uuid(cache.pick(&tablet, Selection::LeaderOnly, &[])).as_deref(), Some("b"));
}

#[test]
fn a_failed_server_fails_in_all_tablets_until_a_newer_answer_names_it() {
    let (cache, now) = (MetaCache::new(remote_options()), Instant::now());
    let roles = [Role::Leader, Role::Follower, Role::Other];
    let one = tablet_on(&cache, "one", three_remote(), &roles, now);
    let two = tablet_on(&cache, "two", three_remote(), &roles, now);
    cache.mark_server_failed(&cache.server("a").expect("known"));
    for tablet in [&one, &two] {
        assert_eq!(uuid(cache.pick(tablet, Selection::LeaderOnly, &[])), None);
        assert_eq!(uuid(cache.pick(tablet, Selection::First, &[])).as_deref(), Some("b"));
        assert_eq!(uuid(cache.pick(tablet, Selection::Closest, &["b"])), None, "a learner is never chosen");
    }
    let one = tablet_on(&cache, "one", three_remote(), &roles, now);
    assert_eq!(uuid(cache.pick(&one, Selection::LeaderOnly, &[])).as_deref(), Some("a"));
    assert_eq!(uuid(cache.pick(&two, Selection::LeaderOnly, &[])), None, "nothing new is known of this one");
}

#[test]
fn a_failed_replica_leaves_the_servers_other_tablets_alone() {
    let (cache, now) = (MetaCache::new(remote_options()), Instant::now());
    let one = tablet_on(&cache, "one", three_remote(), &[Role::Leader], now);
    let two = tablet_on(&cache, "two", three_remote(), &[Role::Leader], now);
    cache.mark_failed(&one, "a");
    assert_eq!(uuid(cache.pick(&one, Selection::First, &[])), None);
    assert_eq!(uuid(cache.pick(&two, Selection::First, &[])).as_deref(), Some("a"));
}

#[test]
fn the_closest_replica_is_local_then_at_the_same_location_then_spread() {
    let mut options = remote_options();
    options.location = "/rack2".into();
    let (cache, now) = (MetaCache::new(options), Instant::now());
    let roles = [Role::Leader, Role::Follower, Role::Follower];
    let mut servers = three_remote();
    servers[1] = servers[1].clone().location("/rack2");
    let tablet = tablet_on(&cache, "t", servers.clone(), &roles, now);
    assert_eq!(uuid(cache.pick(&tablet, Selection::Closest, &[])).as_deref(), Some("b"));
    servers[2] = ServerAnswer::new("c").address("here.example", 1);
    let tablet = tablet_on(&cache, "t", servers, &roles, now);
    assert_eq!(uuid(cache.pick(&tablet, Selection::Closest, &[])).as_deref(), Some("c"));
    let chosen: std::collections::BTreeSet<_> =
        (0..6).filter_map(|_| uuid(cache.pick(&tablet, Selection::Closest, &["c", "b"]))).collect();
    assert_eq!(chosen.len(), 1);
    let tablet = tablet_on(&cache, "far", three_remote(), &roles, now);
    let chosen: std::collections::BTreeSet<_> =
        (0..6).filter_map(|_| uuid(cache.pick(&tablet, Selection::Closest, &[]))).collect();
    assert_eq!(chosen.len(), 3, "equals share the load");
}

#[test]
fn a_unix_socket_is_used_when_advertised_and_local_and_wanted() {
    let now = Instant::now();
    let endpoint = |unix_wanted: bool, server: ServerAnswer| {
        let mut options = Options::default();
        options.use_unix_domain_sockets = unix_wanted;
        let cache = MetaCache::new(options);
        tablet_on(&cache, "t", vec![server], &[Role::Leader], now);
        let endpoint = cache.endpoint(&cache.server("a").expect("known"), now);
        let stats = cache.stats().snapshot();
        assert_eq!((stats.unix_chosen, stats.tcp_chosen), if endpoint.is_unix() { (1, 0) } else { (0, 1) });
        endpoint.is_unix()
    };
    let at = |host: &str| ServerAnswer::new("a").address(host, 7050).unix_path("@kudu-a");
    assert!(endpoint(true, at("127.0.0.1")));
    assert!(endpoint(true, at("127.200.3.4")), "mini clusters spread over 127.0.0.0/8");
    assert!(endpoint(true, at("localhost")));
    assert!(!endpoint(false, at("127.0.0.1")));
    assert!(!endpoint(true, at("192.0.2.7")), "a documentation address is nobody's");
    assert!(!endpoint(true, ServerAnswer::new("a").address("127.0.0.1", 7050)), "nothing advertised");
    assert!(
        !endpoint(
            true,
            ServerAnswer::new("a").address("192.0.2.7", 1).address("127.0.0.1", 1).unix_path("@kudu-a")
        ),
        "only the first address says where it is"
    );
    assert!(
        !endpoint(true, ServerAnswer::new("a").address("127.0.0.1", 7050).unix_path("")),
        "no address at all"
    );
}

#[test]
fn a_dead_unix_socket_gives_way_to_tcp_for_a_while() {
    let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
    let at = |port| vec![ServerAnswer::new("a").address("127.0.0.1", port).unix_path("@kudu-a")];
    let tablet = tablet_on(&cache, "t", at(7050), &[Role::Leader], now);
    let server = cache.pick(&tablet, Selection::LeaderOnly, &[]).expect("a leader");
    assert!(cache.endpoint(&server, now).is_unix());
    cache.mark_unix_unreachable(&server, now);
    let Endpoint::Tcp(host) = cache.endpoint(&server, now) else { panic!("the socket is dead") };
    assert_eq!((host.host.as_str(), host.port), ("127.0.0.1", 7050));
    assert!(cache.pick(&tablet, Selection::LeaderOnly, &[]).is_some(), "the replica itself has not failed");
    assert!(!cache.endpoint(&server, now + Duration::from_secs(29)).is_unix());
    assert!(cache.endpoint(&server, now + Duration::from_secs(30)).is_unix(), "tried again later");
    cache.mark_unix_unreachable(&server, now);
    tablet_on(&cache, "t", at(7051), &[Role::Leader], now);
    assert!(cache.endpoint(&server, now).is_unix(), "a restarted server gets a fresh chance");
    let stats = cache.stats().snapshot();
    assert_eq!((stats.unix_chosen, stats.tcp_chosen, stats.unix_fallbacks), (3, 2, 2));
}

#[test]
fn a_server_that_moved_is_found_at_its_new_address() {
    let (cache, now) = (MetaCache::new(remote_options()), Instant::now());
    let old = tablet_on(&cache, "t", three_remote(), &[Role::Leader], now);
    let server = cache.pick(&old, Selection::First, &[]).expect("one");
    tablet_on(&cache, "u", vec![ServerAnswer::new("a").address("new.example", 9)], &[Role::Leader], now);
    assert_eq!(server.host_port().host, "new.example", "all tablets share what is known of a server");
}

#[test]
fn a_replica_on_a_server_without_address_is_left_out() {
    let (cache, now) = (MetaCache::new(remote_options()), Instant::now());
    let servers = vec![ServerAnswer::new("a"), ServerAnswer::new("b").address("b.example", 1)];
    let tablet = tablet_on(&cache, "t", servers, &[Role::Leader, Role::Follower], now);
    assert_eq!(tablet.replicas().len(), 1);
    assert_eq!(uuid(cache.pick(&tablet, Selection::First, &[])).as_deref(), Some("b"));
}

#[test]
fn a_table_made_anew_under_an_old_name_shares_nothing_with_it() {
    let (cache, now) = (MetaCache::new(remote_options()), Instant::now());
    tablet_on(&cache, "old-id", three_remote(), &[Role::Leader], now);
    assert!(matches!(cache.lookup("new-id", b"k", Reach::Point, now), Lookup::Ask(_)));
    cache.forget_table("old-id");
    assert_eq!(cache.cached_tablets("old-id"), 0);
    assert!(matches!(cache.lookup("old-id", b"k", Reach::Point, now), Lookup::Ask(_)));
}
