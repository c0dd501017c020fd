//! What there is to say of pages that were fetched again although nothing had changed.

use serde_json::json;

use super::findings::{
    CLIENTS_NAMED, Finding, STANDING_OUT_SHARE, Severity, WARNING_SHARE, is_notable, is_partial, percent, share,
};
use super::report::{ClientRow, Refetches, RelationRow, Report};
use crate::render::{bytes_text, count_text};
use crate::reuse::PAGE_BYTES;

/// The computes that stand out one by one, then all others together. There is always something to say.
pub(super) fn redundant(report: &Report, refetch: &Refetches, findings: &mut Vec<Finding>) {
    if report.totals.getpage == 0 {
        return;
    }
    if refetch.counts.redundant == 0 {
        findings.push(nothing_redundant(report, refetch));
        return;
    }
    let mut computes: Vec<&ClientRow> = report.clients.iter().filter(|row| row.asked.getpage > 0).collect();
    computes.sort_by_key(|row| std::cmp::Reverse(row.asked.refetch.redundant));
    let (named, others): (Vec<_>, Vec<_>) = computes.into_iter().enumerate().partition(|(place, row)| {
        let redundant = row.asked.refetch.redundant;
        let stands_out = share(redundant, refetch.counts.redundant) >= STANDING_OUT_SHARE;
        *place < CLIENTS_NAMED && row.client.is_some() && is_notable(redundant, row.asked.getpage) && stands_out
    });
    findings.extend(named.iter().map(|(_, row)| redundant_of(report, row)));
    let others: Vec<&ClientRow> = others.into_iter().map(|(_, row)| row).collect();
    findings.extend(redundant_of_others(report, &others, named.len()));
}

fn nothing_redundant(report: &Report, refetch: &Refetches) -> Finding {
    let getpage = report.totals.getpage;
    let text = format!(
        "None of {} GetPage is proven to have fetched a page that had not changed since the compute last fetched it.",
        count_text(getpage)
    );
    let evidence = json!({ "getpage": getpage, "redundant": 0, "unproven": refetch.counts.unproven });
    Finding { id: "redundant_refetch", severity: Severity::Info, text, evidence }
}

/// What a compute is called: a primary and a standby may have one address.
pub(super) const fn role(is_primary: bool) -> &'static str {
    if is_primary { "the compute" } else { "the standby or static compute" }
}

/// What one compute fetched although it had had it.
fn redundant_of(report: &Report, row: &ClientRow) -> Finding {
    let (counts, getpage) = (&row.asked.refetch, row.asked.getpage);
    let whose = |text: &Option<String>| text.clone().unwrap_or_default();
    let role = role(row.primary == Some(true));
    let mut text = format!(
        "{} of {} GetPage of tenant {} by {role} at {} fetched a page that had not changed since it last fetched it: \
         {}, proven for each by its own promises.",
        percent(counts.redundant, getpage),
        count_text(getpage),
        whose(&row.tenant),
        whose(&row.client),
        amount(report, counts.redundant),
    );
    let most = most_of(report, row);
    if let Some((rel, count)) = &most {
        text += &format!(" Relation {rel} accounts for {} of them.", percent(*count, counts.redundant));
    }
    if row.epoch_ns.is_none() {
        text += " Restarts of this compute may be invisible here.";
    }
    let evidence = json!({
        "tenant": row.tenant, "timeline": row.timeline, "client": row.client, "primary": row.primary,
        "getpage": getpage, "redundant": counts.redundant, "redundant_ratio": counts.redundant_ratio,
        "redundant_r1": counts.redundant_r1, "redundant_r2": counts.redundant_r2, "redundant_r3": counts.redundant_r3,
        "rel": most.as_ref().map(|(rel, _)| rel), "rel_redundant": most.as_ref().map(|(_, count)| count),
        "lower_bound": is_partial(report), "restarts_visible": row.epoch_ns.is_some(),
    });
    Finding { id: "redundant_refetch", severity: severity(counts.redundant, getpage), text, evidence }
}

/// What the computes fetched again that were not named.
fn redundant_of_others(report: &Report, others: &[&ClientRow], named: usize) -> Option<Finding> {
    let sum = |of: fn(&ClientRow) -> u64| others.iter().map(|row| of(row)).fold(0, u64::saturating_add);
    let (getpage, redundant) = (sum(|row| row.asked.getpage), sum(|row| row.asked.refetch.redundant));
    let again = others.iter().filter(|row| row.asked.refetch.redundant > 0).count();
    let most = others.iter().map(|row| row.asked.refetch.redundant).max()?;
    if redundant == 0 || (named > 0 && !is_notable(redundant, getpage)) {
        return None;
    }
    let by = match (named, others.len()) {
        (0, 1) => "one compute".to_owned(),
        (0, computes) => format!("{} computes", count_text(computes as u64)),
        (_, 1) => "one further compute".to_owned(),
        (_, computes) => format!("{} further computes", count_text(computes as u64)),
    };
    let mut text = format!(
        "{} of {} GetPage by {by} fetched a page that had not changed since the same compute last fetched it: {}, proven \
         for each.",
        percent(redundant, getpage),
        count_text(getpage),
        amount(report, redundant),
    );
    if others.len() > 1 {
        text += &format!(" {} of them did so, none more than {} times.", count_text(again as u64), count_text(most));
    }
    let evidence = json!({
        "computes": others.len(), "computes_with_redundant": again, "getpage": getpage, "redundant": redundant,
        "redundant_ratio": share(redundant, getpage), "most_of_a_compute": most, "lower_bound": is_partial(report),
    });
    Some(Finding { id: "redundant_refetch_others", severity: severity(redundant, getpage), text, evidence })
}

/// `at least 157 (1.2 MiB)`.
fn amount(report: &Report, redundant: u64) -> String {
    let bound = if is_partial(report) { "at least " } else { "" };
    format!("{bound}{} ({})", count_text(redundant), bytes_text(redundant.saturating_mul(PAGE_BYTES)))
}

fn severity(redundant: u64, getpage: u64) -> Severity {
    let is_grave = is_notable(redundant, getpage) && share(redundant, getpage) >= WARNING_SHARE;
    if is_grave { Severity::Warning } else { Severity::Info }
}

/// The relation with most of a compute's redundant fetches, where the compute is the only one of its timeline: relations
/// are counted by timeline.
fn most_of(report: &Report, row: &ClientRow) -> Option<(String, u64)> {
    let of_timeline =
        |tenant: &Option<String>, timeline: &Option<String>| (tenant, timeline) == (&row.tenant, &row.timeline);
    let computes = report.clients.iter().filter(|other| of_timeline(&other.tenant, &other.timeline));
    if computes.filter(|other| other.asked.refetch.redundant > 0).count() != 1 {
        return None;
    }
    let relations = report.relations.iter().filter(|other| of_timeline(&other.tenant, &other.timeline));
    let redundant = |relation: &RelationRow| relation.refetch.map_or(0, |counts| counts.redundant);
    let most = relations.max_by_key(|relation| redundant(relation)).filter(|most| redundant(most) > 0)?;
    Some((most.rel.clone()?, redundant(most)))
}
