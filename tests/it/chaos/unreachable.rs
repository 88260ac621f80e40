//! A store that cannot be reached when a command starts.

use relaybus_host::store::Backend;
use relaybus_tests::private_server::quiet_port;
use relaybus_tests::{guests, host};

use crate::harness::{On, case};
use crate::place::UNAVAILABLE;

case!(On::Servers, every_command_names_the_host_and_port_of_a_store_that_cannot_be_reached, |backend| async move {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("relaybus.toml"), "[store]\ncall_timeout = \"1s\"\n").unwrap();
    let address = format!("127.0.0.1:{}", quiet_port().unwrap());
    let url = match backend {
        Backend::Sqlite => unreachable!("it has no servers"),
        Backend::Postgres => format!("postgres://somebody:s3cret@{address}/orders"),
        Backend::MongoDb => format!("mongodb://somebody:s3cret@{address}/orders"),
    };
    let component = guests::component("noop");
    let component = component.to_str().unwrap();
    for arguments in [
        &["run", component, "--until-idle"][..],
        &["run", component],
        &["publish", "noop.a", "--data", "{}"],
        &["deliveries", "list"],
        &["deliveries", "show", "0197f0a0-0000-8000-8000-000000000000"],
        &["handlers", "add", component],
        &["handlers", "list"],
        &["prune"],
        &["migrate"],
    ] {
        let ended = host::run(folder.path(), &[arguments, &["--store", &url]].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(UNAVAILABLE), ""), "{arguments:?}: {ended:?}");
        let errors: Vec<_> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{arguments:?}: {ended:?}");
        assert!(errors[0].contains(&address) && errors[0].contains("orders"), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains("\n hint: ") && !ended.stderr.contains("s3cret"), "{arguments:?}: {ended:?}");
    }
});
