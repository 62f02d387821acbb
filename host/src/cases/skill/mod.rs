//! Cases of skills: a person or a scripted model starts the skill, and what it does is compared with what it should.
//!
//! A case runs in the real loop with the real policy, tools for files and `bash` confined as in any session, in a workspace that is
//! gone afterwards; scripts of the bundle run where they lie. Nothing leaves the machine: the model is a script (`file`), tools that
//! are not the program's are doubles with canned results (`tools`). How each call came to run is what policy and approver were asked
//! on the way (`calls`). Start from [`SkillSuite`].

mod calls;
mod expect;
mod file;
mod run;
mod seen;
mod suite;
mod tools;

pub use file::{CannedTool, SkillCase, SkillExpect, SkillGiven};
pub use run::{FindCommands, SkillRunner, run};
pub use seen::SkillSeen;
pub use suite::SkillSuite;
