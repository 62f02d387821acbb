//! Runs test cases of skills: a person or a scripted model starts the skill, and its behavior is
//! compared with the expected one.
//!
//! A case runs in the real loop with the real policy, file tools and `bash`, confined as in any
//! session, in a temporary workspace; scripts of the skill run from the skill's own directory.
//! Nothing leaves the machine: the model is a script (`file`), and tools that the program does not
//! have are doubles with canned results (`tools`). The decision about each call is derived from the
//! questions that policy and approver get (`calls`). Start from [`SkillCaseSuite`].

mod calls;
mod expect;
mod file;
mod run;
mod seen;
mod suite;
pub(crate) mod tools;

pub use file::{CannedTool, SkillCase, SkillCaseScenario, SkillExpectation};
pub use run::{CommandEnvironmentFactory, SkillCaseRunnerConfig, run_skill_case};
pub use seen::ObservedSkill;
pub use suite::SkillCaseSuite;
