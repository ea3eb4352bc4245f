//! Who runs this process.

/// The name of the user who runs this process, as peers are told: from the passwd file, else `$USER`, else the number.
///
/// The environment comes second, since containers and services often have none, or that of somebody else.
pub fn process_user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    name_of(uid, &passwd(), std::env::var("USER").ok())
}

/// The name of a user of this machine: from the passwd file, else the number.
pub fn user_name(uid: u32) -> String {
    name_of(uid, &passwd(), None)
}

fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}

fn name_of(uid: u32, passwd: &str, environment: Option<String>) -> String {
    let listed = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    });
    listed.or(environment.filter(|name| !name.is_empty())).unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_passwd_file_whatever_the_environment_says() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\n:x:7:\nann:x:1000:1000::/home/ann:/bin/sh\n";
        let user = |text: &str| Some(text.to_owned());
        assert_eq!(name_of(1000, passwd, user("somebody")), "ann");
        assert_eq!(name_of(7, passwd, user("bob")), "bob");
        assert_eq!(name_of(7, passwd, user("")), "7");
        assert_eq!(name_of(1, "", None), "1");
    }
}
