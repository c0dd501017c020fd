//! SIGHUP: the configuration is read anew, and what of it can be changed while the daemon runs is.

use trace::Change;

use super::config::{Config, TraceLimits};
use super::hub::Hub;

/// What becomes of a configuration that is read anew.
pub(super) struct Reloaded {
    /// The one from now on.
    pub(super) config: Config,
    /// Keys whose new values have not been taken over.
    pub(super) at_the_next_start: Vec<&'static str>,
}

impl Config {
    /// This configuration with what can be changed at run time of the other, and what else differs.
    pub(super) fn reloaded(&self, wanted: &Self) -> Reloaded {
        let mut config = Self { limits: wanted.limits.clone(), ..self.clone() };
        config.recorder.sample.clone_from(&wanted.recorder.sample);
        config.triggers.clone_from(&wanted.triggers);
        config.cpu_budget.clone_from(&wanted.cpu_budget);
        config.memory_cap = wanted.memory_cap;
        let differs = [
            ("instance", self.instance != wanted.instance),
            ("interfaces", self.interfaces != wanted.interfaces),
            ("ports", self.ports != wanted.ports),
            ("data_directory", self.data_directory != wanted.data_directory),
            ("memory", self.memory != wanted.memory),
            ("buffer_size", self.buffer_size != wanted.buffer_size),
            ("recorder.enabled", self.recorder.enabled != wanted.recorder.enabled),
            ("control", self.control != wanted.control),
            #[cfg(feature = "api")]
            ("api", self.api != wanted.api),
            #[cfg(feature = "api")]
            ("authentication", self.authentication != wanted.authentication),
            #[cfg(feature = "upload")]
            ("upload", self.upload != wanted.upload),
        ];
        let at_the_next_start = differs.into_iter().filter(|&(_, differs)| differs).map(|(key, _)| key).collect();
        Reloaded { config, at_the_next_start }
    }
}

impl Hub {
    /// Takes over what of another configuration can be taken over, and says the rest; or says why nothing has changed.
    pub(super) fn reload(&self, read: Result<Config, String>) -> String {
        let said = read.and_then(|wanted| self.take_over(&wanted));
        let mut status = self.reloads();
        status.times = status.times.saturating_add(1);
        status.refused = said.as_ref().err().cloned();
        if let Ok((_, keys)) = &said {
            status.at_the_next_start = keys.iter().map(ToString::to_string).collect();
        }
        drop(status);
        match said {
            Err(error) => format!("The configuration was not reloaded, nothing has changed: {error}"),
            Ok((words, keys)) if keys.is_empty() => format!("The configuration was reloaded.\n{}", words.trim_end()),
            Ok((words, keys)) => format!(
                "The configuration was reloaded.\n{}\nnote: this changes when the daemon is started anew: {}",
                words.trim_end(),
                keys.join(", ")
            ),
        }
    }

    fn take_over(&self, wanted: &Config) -> Result<(String, Vec<&'static str>), String> {
        let _keeping = self.keeping();
        let before = self.config();
        let Reloaded { config, at_the_next_start } = before.reloaded(wanted);
        let TraceLimits { tenant_bytes, total_bytes, .. } = &config.limits;
        let limits = Change {
            max_bytes: Some(tenant_bytes.as_u64()),
            max_total_bytes: Some(total_bytes.as_u64()),
            ..Change::default()
        };
        if self.ring().as_ref().is_some_and(|ring| !ring.change(limits)) {
            return Err("the flight recorder's disk is too slow to change its limits now: try again".to_owned());
        }
        let words = config.in_words();
        // The flight recorder's sample follows: see `Hub::keep_wanted_keys`.
        self.set_config(config);
        Ok((words, at_the_next_start))
    }
}

#[cfg(test)]
mod tests {
    use bytesize::ByteSize;

    use super::*;

    const LEAST: &str = "instance = \"n\"\ninterfaces = [\"lo\"]\ndata_directory = \"/d\"\n";

    #[test]
    fn what_can_be_changed_is_and_the_rest_is_named() {
        let before = Config::parse(LEAST).unwrap();
        let changed = "cpu_budget = \"5%\"\nmemory_cap = \"1GiB\"\nports = [7]\n[limits]\ntenant_bytes = \"1MiB\"\n[recorder]\nsample = \"1/4\"\nenabled = false\n";
        let wanted = Config::parse(&format!("{LEAST}{changed}")).unwrap();
        let Reloaded { config, at_the_next_start } = before.reloaded(&wanted);
        assert_eq!(at_the_next_start, ["ports", "recorder.enabled"]);
        assert_eq!((config.ring_one_in(), config.limits.tenant_bytes), (4, ByteSize::mib(1)));
        assert_eq!((config.cpu_budget(), config.memory_cap), (Some(0.05), ByteSize::gib(1)));
        assert_eq!((&config.ports, config.recorder.enabled), (&before.ports, true));
        // A key that is forgotten above is neither taken over nor named.
        let taken_over = Config { ports: wanted.ports.clone(), recorder: wanted.recorder.clone(), ..config };
        assert_eq!(taken_over, wanted);
    }
}
