//! Attacks by what a plugin says: names, descriptions, schemas, arguments, texts.

use futures_util::FutureExt;
use rind::grant::Trust;

use crate::attack::{Attack, Stage, attack, load, offered, raw_tools};
use crate::programs::Program;

pub(crate) fn attacks() -> Vec<Attack> {
    let own = |number, what, run, meets| {
        let mut attack = attack(
            number,
            what,
            Program::Guest("raw_tools"),
            Stage::Own(run),
            meets,
        );
        attack.manifest.clear();
        attack
    };
    let wide = "side_effects = [\"none\"]\n[limits]\ntimeout = \"300ms\"\n";
    vec![
        attack(
            "37",
            "looks for environment, arguments and folders",
            Program::Guest("reads_environment"),
            Stage::Tool,
            "0 variables, 0 arguments, true true true",
        ),
        attack(
            "37",
            "asks for a terabyte of randomness",
            Program::Guest("asks_random"),
            Stage::Tool,
            "failed: it trapped",
        ),
        attack(
            "11",
            "holds on to handles of the host without end",
            Program::Guest("floods_pollables"),
            Stage::Tool,
            "over a limit: resources",
        ),
        own(
            "41",
            "takes the name of a built-in tool",
            || shadow().boxed(),
            "read_file",
        ),
        own(
            "41",
            "a name in letters that look like others",
            || raw_tools("homoglyph").boxed(),
            "a name is made of",
        ),
        own(
            "41",
            "ten thousand tools",
            || raw_tools("many").boxed(),
            "this one lists more",
        ),
        own(
            "40",
            "a description that drowns the prompt",
            || raw_tools("long").boxed(),
            "more than 4096",
        ),
        own(
            "45",
            "a schema that refers to itself twice",
            || raw_tools("cycle").boxed(),
            "its tool `bomb` is refused",
        ),
        own(
            "45",
            "a schema on another server",
            || raw_tools("remote").boxed(),
            "its tool `remote` is refused",
        ),
        own(
            "45",
            "a schema five thousand levels deep",
            || raw_tools("deep").boxed(),
            "its tool `deep` is refused",
        ),
        attack(
            "42",
            "a gate changes arguments without `session`",
            Program::Guest("changes_arguments"),
            Stage::Gate,
            "session",
        )
        .with(wide),
    ]
}

async fn shadow() -> String {
    let plugins = load(&Program::Guest("shadows_read_file"), "", Trust::Managed).await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    offered(&plugins)
}
