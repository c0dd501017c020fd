//! Which kinds of request come how often.

use std::fmt;
use std::str::FromStr;

use record::Kind;

use crate::rng::Rng;

/// Weights of the five kinds. On the command line `getpage=95,exists=2,nblocks=2,dbsize=1`; a kind left out never comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindMix {
    weights: [u32; 5],
}

impl KindMix {
    /// What a compute asks for in normal work, roughly.
    pub const USUAL: Self = Self { weights: [95, 2, 2, 1, 0] };

    /// The kind of the next request.
    pub fn draw(&self, rng: &mut Rng) -> Kind {
        let total: u64 = self.weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut ticket = rng.below(total);
        for (&kind, &weight) in Kind::ALL.iter().zip(&self.weights) {
            match ticket.checked_sub(u64::from(weight)) {
                Some(rest) => ticket = rest,
                None => return kind,
            }
        }
        Kind::GetPage
    }
}

impl fmt::Display for KindMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (kind, weight) in Kind::ALL.iter().zip(&self.weights).filter(|(_, weight)| **weight > 0) {
            write!(f, "{separator}{kind}={weight}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for KindMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no mix of kinds: getpage=95,exists=2,nblocks=2,dbsize=1,slru=0");
        let mut weights = [0; 5];
        for part in text.split(',') {
            let (word, weight) = part.split_once('=').unwrap_or((part, "1"));
            let kind: Kind = word.parse().map_err(|_| wrong())?;
            for (&of, slot) in Kind::ALL.iter().zip(&mut weights) {
                if of == kind {
                    *slot = weight.parse().map_err(|_| wrong())?;
                }
            }
        }
        if weights.iter().all(|&weight| weight == 0) { Err(wrong()) } else { Ok(Self { weights }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_as_often_as_their_weights_say() {
        let mix: KindMix = "getpage=3,slru=1".parse().unwrap();
        let mut rng = Rng::new(1, 1);
        let drawn: Vec<Kind> = (0..4000).map(|_| mix.draw(&mut rng)).collect();
        let segments = drawn.iter().filter(|kind| **kind == Kind::Slru).count();
        assert!((900..1100).contains(&segments), "{segments}");
        assert!(drawn.iter().all(|kind| matches!(kind, Kind::GetPage | Kind::Slru)));
    }

    #[test]
    fn a_mix_is_read_as_it_is_printed() {
        assert_eq!(KindMix::USUAL.to_string().parse(), Ok(KindMix::USUAL));
        for text in ["", "page=1", "getpage=x", "getpage=0"] {
            assert!(text.parse::<KindMix>().is_err(), "{text}");
        }
    }
}
