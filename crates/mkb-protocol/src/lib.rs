//! The plan and its convergence: statuses, schedule, budgets and skill transfer.
