//! Who may call which method: users, administrators, and the servers themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

pub use net_addr::process_user;
use rpc_server::authz::{Access, Authorizer};

use crate::flags::FlagSet;

/// A list of user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acl {
    /// `*`
    Everybody,
    /// These, perhaps none.
    Users(BTreeSet<String>),
}

impl Acl {
    /// Reads names separated by commas; one that is `*` stands for everybody.
    pub fn parse(text: &str) -> Self {
        let users: BTreeSet<String> =
            text.split(',').map(|user| user.trim().to_owned()).filter(|user| !user.is_empty()).collect();
        if users.contains("*") { Self::Everybody } else { Self::Users(users) }
    }

    /// Is this user in the list?
    pub fn allows(&self, user: &str) -> bool {
        match self {
            Self::Everybody => true,
            Self::Users(users) => users.contains(user),
        }
    }
}

/// The three kinds of callers that methods ask for.
#[derive(Clone, Debug)]
pub struct AccessRules {
    /// `--user_acl`.
    pub users: Acl,
    /// `--superuser_acl`, or the user who runs the server if that is empty. May also do what users and servers may.
    pub superusers: Acl,
    /// The user as whom the cluster's servers call one another.
    pub service_user: String,
}

impl AccessRules {
    /// From the flags `user_acl` and `superuser_acl` as they are now; the servers' user is the one who runs this process.
    pub fn from_flags(flags: &FlagSet) -> Self {
        let service_user = process_user();
        let superusers = flags.string("superuser_acl");
        let superusers = Acl::parse(if superusers.is_empty() { &service_user } else { &superusers });
        Self { users: Acl::parse(&flags.string("user_acl")), superusers, service_user }
    }

    /// May `user` call a method with this rule (the name in its .proto file)? Methods without a rule are open, methods with a
    /// rule that is not known here are closed.
    pub fn allows(&self, rule: &str, user: &str) -> bool {
        let client = || self.users.allows(user);
        let service = || self.service_user == user;
        match rule {
            "" => true,
            // Everybody is a client unless told otherwise, and this runs with each call.
            "AuthorizeClient" | "AuthorizeListTablets" => client() || self.superusers.allows(user),
            "AuthorizeServiceUser" => self.superusers.allows(user) || service(),
            "AuthorizeClientOrServiceUser" => client() || self.superusers.allows(user) || service(),
            "AuthorizeSuperUser" => self.superusers.allows(user),
            _ => false,
        }
    }

    /// The hook for [`rpc_server::ServerBuilder::authorizer`]; refusals are logged.
    pub fn authorizer(self) -> Authorizer {
        Arc::new(move |access: &Access<'_>| {
            let user = &access.connection.user;
            let allowed = self.allows(access.rule, user);
            if !allowed {
                let (service, method, peer) = (access.service, access.method, &access.connection.peer);
                tracing::warn!("refused {service}.{method} to user {user:?} at {peer}");
            }
            allowed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Role;

    fn rules(arguments: &[&str]) -> AccessRules {
        let flags = FlagSet::builder(Role::Master, "test").build();
        flags.parse(arguments.iter().copied()).unwrap();
        AccessRules { service_user: "kudu".to_owned(), ..AccessRules::from_flags(&flags) }
    }

    #[test]
    fn everybody_is_a_client_and_only_the_owner_administers_by_default() {
        let rules = rules(&[]);
        let owner = process_user();
        for (rule, somebody, service) in [
            ("", true, true),
            ("AuthorizeClient", true, true),
            ("AuthorizeListTablets", true, true),
            ("AuthorizeClientOrServiceUser", true, true),
            ("AuthorizeServiceUser", false, true),
            ("AuthorizeSuperUser", false, false),
            ("AuthorizeWhatWeDoNotKnow", false, false),
        ] {
            assert_eq!(rules.allows(rule, "somebody"), somebody, "{rule}");
            assert_eq!(rules.allows(rule, "kudu"), service || somebody, "{rule}");
            assert_eq!(rules.allows(rule, &owner), rule != "AuthorizeWhatWeDoNotKnow", "{rule}");
        }
    }

    #[test]
    fn lists_name_exactly_who_may() {
        let rules = rules(&["--user_acl= ann , bob", "--superuser_acl=root2"]);
        assert!(rules.allows("AuthorizeClient", "ann") && rules.allows("AuthorizeClient", "bob"));
        assert!(!rules.allows("AuthorizeClient", "an") && !rules.allows("AuthorizeClient", ""));
        assert!(
            !rules.allows("AuthorizeClient", "kudu") && rules.allows("AuthorizeClientOrServiceUser", "kudu")
        );
        assert!(rules.allows("AuthorizeSuperUser", "root2") && rules.allows("AuthorizeClient", "root2"));
        assert_eq!(Acl::parse("a,*"), Acl::Everybody);
        assert!(!Acl::parse("").allows(""));
    }
}
