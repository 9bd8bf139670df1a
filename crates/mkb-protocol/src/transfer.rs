//! What a trial is given of its source's work.

use mkb_catalog::setting::{KERNEL_PATH, SKILL_PATH};
use mkb_catalog::skill::{self, Origin};
use mkb_catalog::{Arm, Payload, Trial};
use mkb_store::{Store, StoreError};

/// A function from a skill's text to a control's; `None` where the skill gives no such control.
pub type Rewrite<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// How the control arms make their texts of a source's skill.
#[derive(Clone, Copy)]
pub struct Transfer<'a> {
    /// Inverts the claims of a skill.
    pub wrong: Rewrite<'a>,
    /// Gives a text of its kind without a claim about what can be tuned.
    pub placebo: Rewrite<'a>,
}

impl Transfer<'static> {
    /// The controls of the built-in agents. A skill without a claim has no `wrong` control.
    pub fn builtin() -> Self {
        Self {
            wrong: &|skill| mkb_agent::skill::wrong(skill).ok(),
            placebo: &|skill| Some(mkb_agent::skill::placebo(skill)),
        }
    }
}

impl Transfer<'_> {
    /// The attachment for a trial, made of what its source left. `None` for solos, and where the
    /// source left nothing to transfer.
    ///
    /// # Errors
    /// Where the source's artifacts are missing or cannot be read.
    pub fn attachment(&self, store: &Store, trial: &Trial) -> Result<Option<String>, StoreError> {
        let (Arm::Transfer { direction, payload }, Some(source)) = (&trial.arm, trial.source())
        else {
            return Ok(None);
        };
        let path = match payload {
            Payload::Code => KERNEL_PATH,
            _ => SKILL_PATH,
        };
        let text = store.artifact(&source, path)?.unwrap_or_default();
        let origin = match payload {
            Payload::Code => Origin::Code,
            _ if direction.source == direction.target => Origin::SameDsl,
            _ => Origin::OtherDsl,
        };
        let readable = skill::normalized(&text);
        if skill::is_blank(&readable) {
            return Ok(None);
        }
        let text = match payload {
            Payload::Skill | Payload::Code => Some(text),
            Payload::Wrong => (self.wrong)(&readable).map(String::into_bytes),
            Payload::Placebo => (self.placebo)(&readable).map(String::into_bytes),
        };
        Ok(text.and_then(|text| skill::attachment(origin, &text)))
    }

    /// Whether what a stored trial was given, by its digest, is what its source would give now.
    ///
    /// # Errors
    /// Where the source's artifacts are missing or cannot be read.
    pub fn is_current(
        &self,
        store: &Store,
        trial: &Trial,
        given: Option<&str>,
    ) -> Result<bool, StoreError> {
        let expected = self.attachment(store, trial)?;
        let (Some(expected), Some(given)) = (&expected, given) else {
            return Ok(expected.is_none() && given.is_none());
        };
        if skill::digest(expected) == given {
            return Ok(true);
        }
        // Another implementation words the heading differently: then the attachment that it kept
        // says whether it carries the source's skill as it stands.
        let is_skill = matches!(
            &trial.arm,
            Arm::Transfer {
                payload: Payload::Skill,
                ..
            }
        );
        let (true, Some(source), Some(kept)) = (is_skill, trial.source(), store.attachment(trial)?)
        else {
            return Ok(false);
        };
        let text = store.artifact(&source, SKILL_PATH)?.unwrap_or_default();
        Ok(mkb_catalog::fingerprint::sha256_hex(&kept) == given && skill::carries(&kept, &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_without_a_claim_has_no_wrong_control_but_a_placebo() {
        let builtin = Transfer::builtin();
        let skill = "The day was long.\n";
        assert_eq!((builtin.wrong)(skill), None);
        assert!((builtin.placebo)(skill).is_some_and(|text| !skill::is_blank(&text)));
    }
}
