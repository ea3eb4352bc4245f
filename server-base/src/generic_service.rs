//! `kudu.server.GenericService`: status, flags and clock of any server.

use std::sync::Arc;

use net_addr::SockAddr;
use proto::kudu::server::set_flag_response_pb::Code;
use proto::kudu::server::{
    CheckLeaksResponsePb, DumpMemTrackersResponsePb, FlushCoverageResponsePb, GetFlagsRequestPb,
    GetFlagsResponsePb, GetStatusResponsePb, ServerClockResponsePb, SetFlagRequestPb, SetFlagResponsePb,
    get_flags_response_pb,
};
use proto::methods::generic_service::{
    CheckLeaks, DumpMemTrackers, FlushCoverage, GetFlags, GetStatus, SERVICE,
    ServerClock as ServerClockMethod, SetFlag,
};
use rpc_server::Service;

use crate::flags::{FlagSet, SetError};
use crate::trackers::{self, MemoryUse, Process};
use crate::{ServerClock, ServerIdentity, logging};

/// What the service tells of its server.
#[derive(Clone)]
pub struct GenericService {
    /// Who the server is.
    pub identity: ServerIdentity,
    /// Its flags; SetFlag changes them.
    pub flags: FlagSet,
    /// Its clock.
    pub clock: ServerClock,
    /// Where it listens, with the ports filled in.
    pub bound: Vec<SockAddr>,
    /// What its memory is used for.
    pub memory: Arc<MemoryUse>,
}

impl std::fmt::Debug for GenericService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GenericService")
            .field("identity", &self.identity)
            .field("bound", &self.bound)
            .finish()
    }
}

impl GenericService {
    /// The service, ready to be registered. All of its methods are cheap.
    ///
    /// FlushCoverage and CheckLeaks answer that they did not succeed, as every release build of Kudu does.
    pub fn into_service(self) -> Service {
        let this = Arc::new(self);
        let (status, get_flags, set_flag) = (this.clone(), this.clone(), this.clone());
        let (clock, memory) = (this.clone(), this);
        Service::builder(SERVICE)
            .function::<GetStatus>(move |_| status.status())
            .function::<GetFlags>(move |request| get_flags.get_flags(request))
            .function::<SetFlag>(move |request| set_flag.set_flag(request))
            .function::<ServerClockMethod>(move |_| ServerClockResponsePb {
                timestamp: Some(clock.clock.now().0),
            })
            .function::<DumpMemTrackers>(move |_| {
                let root_tracker = Some(trackers::tree((memory.memory)(), Process::now()));
                DumpMemTrackersResponsePb { root_tracker }
            })
            .function::<FlushCoverage>(|_| FlushCoverageResponsePb { success: Some(false) })
            .function::<CheckLeaks>(|_| CheckLeaksResponsePb { success: Some(false), ..Default::default() })
            .build()
    }

    fn status(&self) -> GetStatusResponsePb {
        GetStatusResponsePb { status: self.identity.status(&self.bound), error: None }
    }

    /// Those named, whatever their value; else those that were set, or all if asked for. Of these, with tags given, those that
    /// carry one of the tags.
    fn get_flags(&self, request: &GetFlagsRequestPb) -> GetFlagsResponsePb {
        let wanted = |info: &crate::flags::FlagInfo| {
            let by_name = if request.flags.is_empty() {
                request.all_flags() || !info.is_default
            } else {
                request.flags.iter().any(|name| name == info.name)
            };
            by_name
                && (request.tags.is_empty()
                    || info.tags.iter().any(|own| request.tags.iter().any(|tag| tag == own)))
        };
        let flags = self.flags.list().into_iter().filter(wanted).map(|info| get_flags_response_pb::Flag {
            name: Some(info.name.to_owned()),
            value: Some(info.value),
            tags: info.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            is_default_value: Some(info.is_default),
        });
        GetFlagsResponsePb { flags: flags.collect() }
    }

    fn set_flag(&self, request: &SetFlagRequestPb) -> SetFlagResponsePb {
        let answer = |code: Code, msg: Option<String>, old_value| SetFlagResponsePb {
            result: code.into(),
            msg,
            old_value,
        };
        match self.flags.set(&request.flag, &request.value, request.force()) {
            Ok(old) => {
                let (name, value) = (&request.flag, &request.value);
                if self.flags.spec(name).is_some_and(|spec| spec.has_tag("sensitive")) {
                    tracing::info!("--{name} was changed");
                } else {
                    tracing::info!("--{name} was {old:?} and is now {value:?}");
                }
                if name == "v" {
                    logging::set_verbosity(self.flags.int("v"));
                }
                self.flags.warn_ignored();
                answer(Code::Success, Some(format!("{name} set to {value}\n")), Some(old))
            }
            Err(SetError::NoSuchFlag { .. }) => answer(Code::NoSuchFlag, None, None),
            Err(SetError::NotSafe { .. }) => {
                answer(Code::NotSafe, Some("Flag is not safe to change at runtime".to_owned()), None)
            }
            Err(SetError::BadValue { old, .. }) => {
                answer(Code::BadValue, Some("Unable to set flag: bad value".to_owned()), Some(old))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Role;

    fn service(arguments: &[&str]) -> GenericService {
        let flags = FlagSet::builder(Role::TabletServer, "test").build();
        flags.parse(arguments.iter().copied()).unwrap();
        let bound = vec!["127.0.0.1:7050".parse().unwrap(), "@kudu-x".parse().unwrap()];
        GenericService {
            identity: ServerIdentity::new(),
            flags,
            clock: ServerClock::new(),
            bound,
            memory: Arc::new(Vec::new),
        }
    }

    fn names(service: &GenericService, request: GetFlagsRequestPb) -> Vec<String> {
        service.get_flags(&request).flags.into_iter().filter_map(|flag| flag.name).collect()
    }

    #[test]
    fn flags_are_listed_as_the_real_server_does() {
        let service = service(&["--time_source=system_unsync", "--num_reactor_threads=4"]);
        let request = GetFlagsRequestPb::default;
        // Without wishes: what was set, even to its default.
        assert_eq!(names(&service, request()), ["num_reactor_threads", "time_source"]);
        // By name: also what was not set; names are taken literally.
        let by_name = |flags: &[&str]| GetFlagsRequestPb {
            flags: flags.iter().map(|name| (*name).to_owned()).collect(),
            ..request()
        };
        assert_eq!(names(&service, by_name(&["v", "nope", "time_source"])), ["time_source", "v"]);
        assert!(names(&service, by_name(&["num-reactor-threads"])).is_empty());
        // By tag: among those that were set.
        let by_tag =
            |all_flags| GetFlagsRequestPb { tags: vec!["stable".to_owned()], all_flags, ..request() };
        assert_eq!(names(&service, by_tag(None)), ["time_source"]);
        assert!(names(&service, by_tag(Some(true))).len() > 20);
        assert_eq!(names(&service, GetFlagsRequestPb { all_flags: Some(true), ..request() }).len(), 511 - 14);

        let flag = service.get_flags(&by_name(&["rpc_default_keepalive_time_ms"])).flags.remove(0);
        assert_eq!((flag.value(), flag.is_default_value()), ("65000", true));
        assert_eq!(flag.tags, ["advanced"]);
    }

    #[test]
    fn flags_are_set_with_the_answers_of_the_real_server() {
        let service = service(&[]);
        let set = |flag: &str, value: &str, force| {
            let request = SetFlagRequestPb {
                flag: flag.to_owned(),
                value: value.to_owned(),
                force,
                ..Default::default()
            };
            let answer = service.set_flag(&request);
            (answer.result(), answer.msg.unwrap_or_default(), answer.old_value)
        };
        let old = |text: &str| Some(text.to_owned());
        assert_eq!(set("v", "1", None), (Code::Success, "v set to 1\n".to_owned(), old("0")));
        assert_eq!(
            set("v", "z", None),
            (Code::BadValue, "Unable to set flag: bad value".to_owned(), old("1"))
        );
        assert_eq!(set("nope", "1", None), (Code::NoSuchFlag, String::new(), None));
        let unsafe_ = "Flag is not safe to change at runtime".to_owned();
        assert_eq!(set("num_reactor_threads", "1", None), (Code::NotSafe, unsafe_, None));
        assert_eq!(
            set("keytab_file", "1", Some(true)),
            (Code::Success, "keytab_file set to 1\n".to_owned(), old(""))
        );
        assert_eq!(set("rpc_max_message_size", "5", None).0, Code::BadValue);
    }

    #[test]
    fn status_is_that_of_the_server_it_was_given() {
        let service = service(&[]);
        let status = service.status().status;
        assert_eq!(status.node_instance, service.identity.node_instance());
        assert_eq!(status.bound_rpc_addresses.len(), 1);
    }

    #[test]
    fn a_flag_that_is_read_at_start_only_says_so() {
        let flags = FlagSet::builder(Role::Master, "test").read_at_start(&["max_num_replicas"]).build();
        let identity = ServerIdentity::new();
        let service = GenericService {
            identity,
            flags,
            clock: ServerClock::new(),
            bound: Vec::new(),
            memory: Arc::new(Vec::new),
        };
        let set = |force| SetFlagRequestPb {
            flag: "max_num_replicas".to_owned(),
            value: "5".to_owned(),
            force: Some(force),
            ..Default::default()
        };
        assert_eq!(service.set_flag(&set(false)).result(), Code::NotSafe);
        assert_eq!(service.set_flag(&set(true)).result(), Code::Success);
        let request = GetFlagsRequestPb { flags: vec!["max_num_replicas".to_owned()], ..Default::default() };
        assert_eq!(service.get_flags(&request).flags[0].tags, ["unsafe"]);
    }
}
