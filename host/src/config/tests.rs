//! Tests of merging layers, and of the messages for mistakes in them.

use super::*;

#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Demo {
    steps: u32,
    name: String,
    inner: Inner,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Inner {
    a: u32,
    b: u32,
    c: Option<u32>,
}

impl Section for Demo {
    const NAME: &'static str = "demo";
}

fn file(name: &str, text: &str) -> Layer {
    Layer::new(Origin::File(name.into()), text.to_owned()).unwrap()
}

#[test]
fn later_layers_win_key_by_key() {
    let config = Config::new(vec![
        file("user", "[demo]\nsteps = 1\nname = 'u'\ninner.a = 1"),
        file("project", "[demo]\nsteps = 2\ninner.b = 2"),
        Layer::flag("demo.inner.a=9").unwrap(),
    ]);
    let demo: Demo = config.section().unwrap();
    assert_eq!(
        demo,
        Demo {
            steps: 2,
            name: "u".into(),
            inner: Inner {
                a: 9,
                b: 2,
                c: None
            }
        }
    );
    assert_eq!(
        config.origin("demo.steps"),
        Some(&Origin::File("project".into()))
    );
    assert_eq!(
        config.origin("demo.inner.a"),
        Some(&Origin::Flag("demo.inner.a=9".into()))
    );
    assert_eq!(config.origin("demo.nothing"), None);
}

#[test]
fn an_unknown_key_is_an_error_with_file_and_line() {
    let config = Config::new(vec![file(
        "/c/config.toml",
        "\n[demo]\nsteps = 1\nstepz = 2\n",
    )]);
    let error = config.section::<Demo>().unwrap_err().to_string();
    assert_eq!(
        error,
        "/c/config.toml:4: in [demo]: unknown field `stepz`, expected one of `steps`, `name`, `inner`"
    );
}

#[test]
fn a_wrong_type_is_an_error_with_file_and_line() {
    let config = Config::new(vec![file("c", "[demo.inner]\na = 1\nb = 'x'\n")]);
    let error = config.section::<Demo>().unwrap_err().to_string();
    assert!(error.starts_with("c:3: in [demo]: invalid type"), "{error}");
}

#[test]
fn an_unknown_section_is_an_error_with_file_and_line() {
    let config = Config::new(vec![file("c", "[demo]\n\n[dmeo]\n")]);
    let error = config.check_known(&["demo"]).unwrap_err().to_string();
    assert_eq!(error, "c:3: unknown section `dmeo`; known: demo");
    assert!(config.check_known(&["demo", "dmeo"]).is_ok());
}

#[test]
fn broken_toml_is_an_error_with_its_line() {
    let error = Layer::new(Origin::File("c".into()), "[demo]\nsteps = \n".into())
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("c:2: "), "{error}");
}

#[test]
fn the_places_of_a_key_are_named_with_their_lines() {
    let config = Config::new(vec![
        file("a", "[demo]\nsteps = 1\n[demo.inner]\n\na = 1\n"),
        file("b", "demo = { inner = { a = 2 } }\n"),
        file("c", "[other]\n"),
        Layer::flag("demo.inner.a=3").unwrap(),
    ]);
    let places = config.places(&["demo", "inner", "a"]);
    assert_eq!(places, ["a:5", "b:1", "--set demo.inner.a=3"]);
    assert_eq!(config.places(&["demo", "inner"])[0], "a:3");
    assert_eq!(config.places(&["demo", "steps", "a"]), [""; 0]);
}

#[test]
fn the_places_of_a_key_in_json_are_named_with_their_lines_too() {
    let text = "{\n \"other\": {\"inner\": 1},\n \"demo\": {\n  \"inner\":\n   {\"a\": 2},\n  \"name\": null}}";
    let json = Layer::json(Origin::File("j".into()), text.to_owned()).unwrap();
    let config = Config::new(vec![json]);
    assert_eq!(config.places(&["demo", "inner", "a"]), ["j:5"]);
    assert_eq!(config.places(&["demo"]), ["j:3"]);
    for not_there in [&["demo", "a"][..], &["demo", "name"], &["inner"]] {
        assert_eq!(config.places(not_there), [""; 0], "{not_there:?}");
    }
}

#[test]
fn a_flag_needs_no_quotes_around_a_string() {
    let config = Config::new(vec![Layer::flag("demo.name=some-name").unwrap()]);
    assert_eq!(config.section::<Demo>().unwrap().name, "some-name");
    assert!(Layer::flag("demo.name").is_err());
}

#[test]
fn a_missing_file_is_no_layer() {
    assert!(
        Layer::file(Path::new("/nowhere/config.toml"))
            .unwrap()
            .is_none()
    );
}

#[test]
fn plugin_settings_carry_a_free_table_and_refuse_unknown_keys() {
    let text = "[plugins.redact]\npriority = 7\non_failure = 'block'\n[plugins.redact.config]\nwords = ['a']\n";
    let config = Config::new(vec![file("c", text)]);
    let plugins: PluginsConfig = config.section().unwrap();
    let redact = &plugins.0["redact"];
    assert_eq!(redact.priority, Some(7));
    assert!(redact.enabled);
    assert!(redact.config.contains_key("words"));
    let config = Config::new(vec![file("c", "[plugins.redact]\nprio = 7\n")]);
    let error = config.section::<PluginsConfig>().unwrap_err().to_string();
    assert!(
        error.starts_with("c:2: in [plugins]: unknown field `prio`"),
        "{error}"
    );
}

fn json(text: &str) -> Result<Layer, Error> {
    Layer::json(Origin::File("c.json".into()), text.to_owned())
}

#[test]
fn settings_in_json_say_the_same_and_those_in_toml_win() {
    let text = r#"{"demo": {"steps": 3, "inner": {"a": 1, "c": null}}, "other": [1.5]}"#;
    let config = Config::new(vec![
        json(text).unwrap(),
        file("c.toml", "demo.inner.a = 2"),
    ]);
    let demo: Demo = config.section().unwrap();
    assert_eq!((demo.steps, demo.inner.a, &*demo.name), (3, 2, ""));
    let folder = tempfile::tempdir().unwrap();
    let toml = folder.path().join("config.toml");
    assert_eq!(Layer::files(&toml).unwrap().len(), 0);
    std::fs::write(folder.path().join("config.json"), text).unwrap();
    std::fs::write(&toml, "demo.steps = 9").unwrap();
    let config = Config::new(Layer::files(&toml).unwrap());
    assert_eq!(config.section::<Demo>().unwrap().steps, 9);
    let without = config.without(&toml).section::<Demo>().unwrap();
    assert_eq!(without, Demo::default(), "both files go");
}

#[test]
fn a_mistake_in_json_is_an_error_with_file_and_line() {
    let table = [
        (
            "{\n\"demo\": {\n\"stepz\": 1}}",
            "c.json:3: in [demo]: unknown field `stepz`, expected one of `steps`, `name`, `inner`",
        ),
        (
            "{\n\"demo\": {\"steps\": \"x\"}}",
            "c.json:2: in [demo]: invalid type: string \"x\", expected u32",
        ),
        (
            "{\"demo\": {\"name\": null}}",
            "c.json:1: in [demo]: invalid type: null, expected a string",
        ),
        (
            "{\"demo\": {},\n\n\"dmeo\": {}}",
            "c.json:3: unknown section `dmeo`; known: demo",
        ),
        ("{\"demo\":\n}", "c.json:2: expected value"),
        ("[]", "c.json:1: settings must be one JSON object"),
    ];
    for (text, expected) in table {
        let found = json(text).and_then(|layer| {
            let config = Config::new(vec![layer]);
            config.check_known(&["demo"])?;
            config.section::<Demo>().map(drop)
        });
        assert_eq!(found.unwrap_err().to_string(), expected, "{text}");
    }
}
