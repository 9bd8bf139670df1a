//! The tuner: an agent without a language model. It fills a solution's parameters, submits, reads
//! the reports, searches, and writes what it learned as plain sentences; given such sentences, it
//! believes them.
//!
//! Without a skill it starts at a random point and changes one parameter at a time. With one it
//! starts where the skill says that it was fastest, tries what the skill names as untried, then
//! what the skill says nothing about, and leaves alone what the skill has settled. It does not
//! doubt: a wrong skill leads it astray, and a text without claims is as good as none.

mod lessons;
mod random;
mod search;

use std::time::Duration;

use mkb_catalog::setting::{KERNEL_PATH, SKILL_PATH};

use self::lessons::{Notes, write_skill};
use self::search::{Belief, Outcome, Search};
use crate::builtin::submit;
use crate::reply::Reply;
use crate::skill;
use crate::template::{Template, TemplateError};
use crate::world::{Agent, Stop, World};

/// How often an uncounted evaluation is repeated.
const RETRIES: u32 = 2;
/// Time that must be left after another submission as long as the longest so far.
const SPARE: Duration = Duration::from_secs(10);

/// An agent without a language model.
#[derive(Debug, Clone)]
pub struct Tuner {
    template: Template,
    seed: u64,
}

impl Tuner {
    /// From a solution file with its `SPACE` and `PARAMS`, and the seed of the search's order.
    ///
    /// # Errors
    /// Where the file is no template.
    pub fn new(solution: &str, seed: u64) -> Result<Self, TemplateError> {
        Ok(Tuner {
            template: Template::parse(solution)?,
            seed,
        })
    }
}

impl Agent for Tuner {
    fn name(&self) -> String {
        "tuner".to_owned()
    }

    fn attempt(&self, world: &mut dyn World) -> Result<(), Stop> {
        let space = &self.template.space;
        let belief = Belief::read(&skill::claims(world.instruction()), space);
        let mut search = Search::new(space, belief, self.seed);
        let mut notes = Notes::default();
        let mut longest = Duration::ZERO;
        while let Some(point) = search.next_point() {
            if world.time_left() < longest + SPARE {
                break;
            }
            world.put(KERNEL_PATH, self.template.fill(&point).as_bytes())?;
            let before = world.time_left();
            let reply = submit_until_counted(world)?;
            longest = longest.max(before.saturating_sub(world.time_left()));
            let over = reply.left == Some(0);
            if reply.counted || !over {
                notes.device = reply.device.clone().or(notes.device);
                notes.clock = reply.clock.clone().or(notes.clock);
                search.learn(point, Outcome::from(&reply));
            }
            // After each submission: time may end within the next.
            let text = write_skill(space, &search.tried, &notes);
            world.put(SKILL_PATH, text.as_bytes())?;
            if over {
                break;
            }
        }
        if let Some(best) = search.best().map(|t| t.point.clone()) {
            world.put(KERNEL_PATH, self.template.fill(&best).as_bytes())?;
        }
        Ok(())
    }
}

/// Submits; what does not count may be the judge's fault, and is submitted again a few times.
fn submit_until_counted(world: &mut dyn World) -> Result<Reply, Stop> {
    let mut retries = RETRIES;
    loop {
        let reply = Reply::read(&submit(world)?);
        if reply.counted || reply.left == Some(0) || retries == 0 {
            return Ok(reply);
        }
        retries -= 1;
    }
}
