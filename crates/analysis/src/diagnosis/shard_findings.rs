//! What there is to say of shards: how many there are, and whether what was asked for fits what was said of them.

use serde_json::json;

use super::findings::{Finding, Severity};
use super::report::Report;
use crate::render::count_text;
use crate::shards::{ClaimReport, ShardReport};

/// Shards that are named one by one.
const SHARDS_NAMED: usize = 8;

/// Of each tenant what is proven, and what contradicts what was said.
pub(super) fn shards(report: &Report, findings: &mut Vec<Finding>) {
    for tenant in &report.shards {
        findings.extend(proven(tenant));
        findings.extend(tenant.claims.iter().filter_map(|claim| contradicted(tenant, claim)));
    }
}

/// `16 shards with stripes of 2,048 pages`; the size is left out where it is not proven.
fn layout_text(count: u8, stripe_blocks: Option<u32>) -> String {
    let stripes = stripe_blocks.map(|blocks| format!(" with stripes of {} pages", count_text(blocks.into())));
    format!("{count} shards{}", stripes.unwrap_or_default())
}

fn proven(tenant: &ShardReport) -> Option<Finding> {
    let count = tenant.count?;
    let mut text = format!(
        "Tenant {} has {}: each connection asked for the blocks of one of them only, for {} stripes that need not have fit.",
        tenant.tenant,
        layout_text(count, tenant.stripe_blocks),
        count_text(tenant.agreeing_stripes),
    );
    let asked: Vec<String> =
        tenant.asked.iter().take(SHARDS_NAMED).map(|&number| format!("{number:02x}{count:02x}")).collect();
    match tenant.asked.len().saturating_sub(SHARDS_NAMED) {
        _ if asked.is_empty() => {}
        0 => text += &format!(" Asked here: {}.", asked.join(", ")),
        more => text += &format!(" Asked here: {} and {more} more.", asked.join(", ")),
    }
    let evidence = json!({
        "tenant": tenant.tenant, "count": count, "stripe_blocks": tenant.stripe_blocks,
        "agreeing_stripes": tenant.agreeing_stripes, "asked": tenant.asked,
    });
    Some(Finding { id: "shards", severity: Severity::Info, text, evidence })
}

/// Where connections mix the shards of a claim, or a trace holds other shards than it says.
fn contradicted(tenant: &ShardReport, claim: &ClaimReport) -> Option<Finding> {
    if claim.mixed_connections == 0 {
        return None;
    }
    let mut text = format!(
        "Tenant {} does not have {}, as --tenant {}-{} and --stripe-size {} say: {} of {} connections asked for blocks \
         of several of them. What was filtered by shard is not what lies on that shard.",
        tenant.tenant,
        layout_text(claim.count, Some(claim.stripe_blocks)),
        tenant.tenant,
        claim.shards.join(", "),
        claim.stripe_blocks,
        count_text(claim.mixed_connections),
        count_text(claim.connections),
    );
    if let Some(count) = tenant.count {
        text += &format!(" It has {}.", layout_text(count, tenant.stripe_blocks));
    }
    let evidence = json!({ "tenant": tenant.tenant, "claim": claim, "count": tenant.count, "stripe_blocks": tenant.stripe_blocks });
    Some(Finding { id: "shard_mismatch", severity: Severity::Warning, text, evidence })
}
