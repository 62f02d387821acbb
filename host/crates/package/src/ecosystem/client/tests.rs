//! Tests of finding registries and proxies in the settings of npm, pip, uv and cargo.

use std::fs;

use super::*;

/// Finds the registry of a package, with these files in the home folder and these environment
/// variables.
fn find_test_registry(
    reference: &str,
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> anyhow::Result<RegistryAddress> {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let variables: Vec<(String, String)> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let environment = PackageClientEnvironment {
        variable: Arc::new(move |name| {
            let mut all = variables.iter();
            let found = all.find(|(own, _)| own == name)?;
            Some(found.1.clone())
        }),
        home: Some(home.path().to_owned()),
    };
    let reference = PackageReference::parse_reference(reference)
        .unwrap()
        .unwrap();
    find_registry(&environment, &reference)
}

/// Returns the address of the registry and the value of the header `Authorization`.
fn configured_address(
    reference: &str,
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> (String, Option<String>) {
    let found = find_test_registry(reference, files, variables).unwrap();
    (found.base.to_string(), found.authorization)
}

#[test]
fn npm_uses_the_registry_of_the_scope_then_of_the_variable_then_of_the_file() {
    let npmrc = "; ours\nregistry = \"https://a.example/npm\"\n@team:registry=https://b.example/\n\
                 //a.example/:_authToken=${TOKEN}\n//b.example/:username=u\n//b.example/:_password=cHc=\n";
    let files = [(".npmrc", npmrc)];
    let token = ("TOKEN", "t0ken");
    assert_eq!(
        configured_address("npm:hello", &files, &[token]),
        (
            "https://a.example/npm/".to_owned(),
            Some("Bearer t0ken".to_owned())
        )
    );
    let other = ("npm_config_registry", "https://c.example");
    assert_eq!(
        configured_address("npm:hello", &files, &[other]),
        ("https://c.example/".to_owned(), None)
    );
    assert_eq!(
        configured_address("npm:@team/hello", &files, &[other]),
        (
            "https://b.example/".to_owned(),
            Some("Basic dTpwdw==".to_owned())
        )
    );
    let error = find_test_registry("npm:hello", &files, &[])
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("`TOKEN`, which is not set"), "{error}");
}

#[test]
fn pip_takes_the_variables_of_pip_and_uv_and_then_the_file() {
    let conf = "[global]\nindex-url = https://a.example/simple\n[install]\nindex_url=https://u%40x:p@b.example/simple/\n";
    let files = [(".config/pip/pip.conf", conf)];
    assert_eq!(
        configured_address("pypi:hello", &files, &[]),
        (
            "https://b.example/simple/".to_owned(),
            Some(basic_auth_header("u@x:p"))
        )
    );
    let uv = ("UV_DEFAULT_INDEX", "ours=https://c.example/x");
    assert_eq!(
        configured_address("pypi:hello", &files, &[uv]).0,
        "https://c.example/x/"
    );
    let pip = ("PIP_INDEX_URL", "https://d.example/simple?x#y");
    assert_eq!(
        configured_address("pypi:hello", &files, &[uv, pip]).0,
        "https://d.example/simple/"
    );
}

#[test]
fn the_default_index_of_uv_is_taken_where_pip_names_none_and_netrc_has_its_login() {
    let uv = "[[index]]\nname = 'more'\nurl = 'https://more.example/simple'\n\
              [[index]]\nname = 'ours'\nurl = 'https://a.example/simple'\ndefault = true\n";
    let netrc = "machine a.example login u password p\ndefault login x password y\n";
    let files = [(".config/uv/uv.toml", uv), (".netrc", netrc)];
    let expected = (
        "https://a.example/simple/".to_owned(),
        Some(basic_auth_header("u:p")),
    );
    assert_eq!(configured_address("pypi:hello", &files, &[]), expected);
    // A login in the address has precedence over `.netrc`, and other hosts and clients get no login
    // from `.netrc`.
    let own = [("PIP_INDEX_URL", "https://v:q@a.example/simple")];
    assert_eq!(
        configured_address("pypi:hello", &files, &own).1,
        Some(basic_auth_header("v:q"))
    );
    let other = [("PIP_INDEX_URL", "https://b.example/simple")];
    assert_eq!(configured_address("pypi:hello", &files, &other).1, None);
    let npm = [("npm_config_registry", "https://a.example/")];
    assert_eq!(configured_address("npm:hello", &files, &npm).1, None);
    let general = [(
        ".config/uv/uv.toml",
        "index-url = 'https://c.example/simple'\n",
    )];
    assert_eq!(
        configured_address("pypi:hello", &general, &[]).0,
        "https://c.example/simple/"
    );
    let error = find_test_registry("pypi:hello", &[(".config/uv/uv.toml", "index-url = ")], &[]);
    let error = format!("{:#}", error.err().unwrap());
    assert!(error.contains("uv.toml is not TOML"), "{error}");
    let error = find_test_registry("pypi:hello", &[(".netrc/x", "")], &other);
    let error = format!("{:#}", error.err().unwrap());
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn cargo_takes_the_default_registry_or_follows_replaced_sources() {
    let config = "[source.crates-io]\nreplace-with = 'one'\n[source.one]\nreplace-with = 'two'\n\
                  [source.two]\nregistry = 'sparse+https://a.example/index'\n\
                  [registries.two]\nindex = 'sparse+https://a.example/index'\n";
    let files = [
        (".cargo/config.toml", config),
        (
            ".cargo/credentials.toml",
            "[registries.two]\ntoken = 't0ken'\n",
        ),
    ];
    let expected = (
        "https://a.example/index/".to_owned(),
        Some("t0ken".to_owned()),
    );
    assert_eq!(configured_address("crates:hello", &files, &[]), expected);
    let default = [
        ("CARGO_REGISTRY_DEFAULT", "my-own"),
        ("CARGO_REGISTRIES_MY_OWN_INDEX", "sparse+https://b.example/"),
    ];
    let expected = ("https://b.example/".to_owned(), None);
    assert_eq!(
        configured_address("crates:hello", &files, &default),
        expected
    );
    for (config, what) in [
        (
            "[source.crates-io]\nreplace-with='crates-io'",
            "in a circle",
        ),
        (
            "[source.crates-io]\nreplace-with='x'",
            "`registries.x.index`",
        ),
        (
            "[source.crates-io]\nreplace-with='x'\n[source.x]\ndirectory='vendor'",
            "is not a sparse index",
        ),
        (
            "[source.crates-io]\nregistry='https://a.example/git'",
            "is not a sparse index",
        ),
        ("token = t0ken", "is not TOML"),
    ] {
        let error = find_test_registry("crates:hello", &[(".cargo/config.toml", config)], &[]);
        let error = format!("{:#}", error.err().unwrap());
        assert!(error.contains(what), "{what}: {error}");
        assert!(!error.contains("t0ken"), "{error}");
    }
}

#[test]
fn insecure_addresses_and_unreadable_settings_files_are_refused() {
    for (url, what) in [
        ("http://a.example/", "neither https nor on this machine"),
        ("http://u:secret@10.0.0.1/", "neither https"),
        ("ftp://127.0.0.1/", "neither https"),
        ("file:///etc/", "neither https"),
        ("hello", "is not a URL"),
    ] {
        let error = find_test_registry("npm:hello", &[], &[("npm_config_registry", url)]);
        let error = format!("{:#}", error.err().unwrap());
        assert!(error.contains(what), "{url}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let local = [("npm_config_registry", "http://127.0.0.1:4873")];
    assert_eq!(
        configured_address("npm:hello", &[], &local).0,
        "http://127.0.0.1:4873/"
    );
    let error = find_test_registry("npm:hello", &[(".npmrc/x", "")], &[])
        .err()
        .unwrap();
    assert!(
        format!("{error:#}").contains("not a regular file"),
        "{error:#}"
    );
}

#[test]
fn proxy_hosts_are_read_from_the_environment() {
    let variables = [
        ("npm_config_registry", "https://a.example"),
        ("HTTPS_PROXY", "http://proxy.example:3128"),
        ("ALL_PROXY", "other.example:80"),
    ];
    let found = find_test_registry("npm:hello", &[], &variables).unwrap();
    assert_eq!(found.proxies, ["proxy.example", "other.example"]);
}

#[test]
fn the_proxy_in_client_settings_overrides_the_variables() {
    let proxy = |reference: &str, files: &[(&str, &str)], variables: &[(&str, &str)]| {
        let found = find_test_registry(reference, files, variables).unwrap();
        let hosts = found.proxies.clone();
        let own = found
            .proxy
            .map(|own| (own.url.to_string(), own.setting, own.exceptions));
        (own, hosts)
    };
    let registry = ("npm_config_registry", "https://a.example");
    let shared = ("HTTPS_PROXY", "http://shared.example:1");
    let npmrc = [(
        ".npmrc",
        "https-proxy=http://u:p@${PROXY}:3128\nproxy=http://other.example\nnoproxy=b.example,.c.example\n",
    )];
    let named = ("PROXY", "own.example");
    let (own, hosts) = proxy("npm:hello", &npmrc, &[registry, shared, named]);
    let (url, setting, exceptions) = own.unwrap();
    assert_eq!(url, "http://u:p@own.example:3128/");
    assert!(setting.starts_with("`https-proxy` in ") && setting.ends_with(".npmrc"));
    assert_eq!(exceptions.as_deref(), Some("b.example,.c.example"));
    assert_eq!(hosts, ["shared.example", "own.example"]);
    let variable = ("NPM_CONFIG_HTTPS_PROXY", "variable.example:8080");
    let (own, _) = proxy("npm:hello", &npmrc, &[registry, named, variable]);
    assert_eq!(own.unwrap().0, "http://variable.example:8080/");
    let off = [(".npmrc", "proxy=null\nhttps-proxy=\n")];
    assert!(proxy("npm:hello", &off, &[registry]).0.is_none());

    let index = ("PIP_INDEX_URL", "https://a.example/simple");
    let pip = [(".config/pip/pip.conf", "[global]\nproxy = own.example\n")];
    let (own, _) = proxy("pypi:hello", &pip, &[index, shared]);
    assert_eq!(own.unwrap().0, "http://own.example/");
    let (own, _) = proxy(
        "pypi:hello",
        &pip,
        &[index, ("PIP_PROXY", "https://v.example")],
    );
    assert_eq!(own.unwrap().0, "https://v.example/");

    let cargo = [(
        ".cargo/config.toml",
        "[http]\nproxy = \"own.example\"\n[source.crates-io]\nreplace-with = \"a\"\n[source.a]\nregistry = \"sparse+https://a.example/\"\n",
    )];
    let (own, _) = proxy("crates:hello", &cargo, &[shared]);
    assert_eq!(own.unwrap().0, "http://own.example:1080/");
}

#[test]
fn an_unusable_proxy_is_refused_with_the_name_of_its_setting() {
    let registry = ("npm_config_registry", "https://a.example");
    for (npmrc, expected) in [
        (
            "proxy=socks5://u:secret@a.example:1080",
            "of the kind `socks5`",
        ),
        ("proxy=http://", "is not the address of a proxy"),
        ("proxy=http://u:secret@:1/", "is not the address of a proxy"),
    ] {
        let error = find_test_registry("npm:hello", &[(".npmrc", npmrc)], &[registry]).err();
        let error = format!("{:#}", error.unwrap());
        assert!(
            error.contains("`proxy` in ") && error.contains(expected),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}
