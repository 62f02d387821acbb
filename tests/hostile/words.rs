//! Attacks with the texts of a plugin: names, descriptions, schemas, arguments and results.

use futures_util::FutureExt;
use rind::grant::Trust;

use crate::attack::{Attack, Stage, attack, load, offered, raw_tools};
use crate::programs::Program;

pub(crate) fn attacks() -> Vec<Attack> {
    let own = |what, run, meets| {
        let mut attack = attack(what, Program::Guest("raw_tools"), Stage::Own(run), meets);
        attack.manifest.clear();
        attack
    };
    let wide = "side_effects = [\"none\"]\n[limits]\ntimeout = \"300ms\"\n";
    vec![
        attack("looks for environment, arguments and folders",
            Program::Guest("reads_environment"),
            Stage::Tool,
            "0 variables, 0 arguments, true true true",
        ),
        attack("asks for a terabyte of randomness",
            Program::Guest("asks_random"),
            Stage::Tool,
            "failed: the plugin trapped",
        ),
        attack("holds on to handles of the host without end",
            Program::Guest("floods_pollables"),
            Stage::Tool,
            "exceeded a limit: resources",
        ),
        own("takes the name of a built-in tool",
            || shadow().boxed(),
            "read_file",
        ),
        own("a name in letters that look like others",
            || raw_tools("homoglyph").boxed(),
            "a name is made of",
        ),
        own("ten thousand tools",
            || raw_tools("many").boxed(),
            "this plugin lists more",
        ),
        own("a description that drowns the prompt",
            || raw_tools("long").boxed(),
            "more than 4096",
        ),
        own("a schema that refers to itself twice",
            || raw_tools("cycle").boxed(),
            "the plugin's tool `bomb` is refused",
        ),
        own("a schema on another server",
            || raw_tools("remote").boxed(),
            "the plugin's tool `remote` is refused",
        ),
        own("a schema five thousand levels deep",
            || raw_tools("deep").boxed(),
            "the plugin's tool `deep` is refused",
        ),
        attack("a secret in the text of an error",
            Program::Guest("leaks_secret"),
            Stage::Tool,
            "the key is [secret masked: aws-access-key]",
        ),
        attack("implements its own point by calling it",
            Program::Guest("calls_itself"),
            Stage::Tool,
            "answered {\"depth\":0}",
        )
        .with("side_effects = [\"none\"]\n[points.again]\nkind = \"mutate\"\n[implements]\n\"attacker.again\" = {}\n"),
        attack("a gate changes arguments without `session`",
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
