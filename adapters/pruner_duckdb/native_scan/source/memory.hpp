//! What need not be asked again: the binds of tables that look as they did, and answers to the same questions.

#pragma once

#include "channel.hpp"
#include "questions.hpp"

namespace pruner {

//! How the places look that a table's answer to a bind depends on.
struct Look {
	//! What was seen, byte for byte; empty where it cannot be told.
	std::string seen;
	//! Whether any later change would show (R4).
	bool settled = false;
};

//! Look at places as `pruner.tables.snapshot.Watched` has them, each with the first letter of its kind in front.
Look LookAt(const std::vector<std::string> &watched);

//! What is known of a table, if it was bound before.
struct KnownTable {
	std::vector<std::string> watched;
	std::string seen;
	duckdb::shared_ptr<const Reference> reference;
};
KnownTable Recall(const std::string &database, const std::string &table);
void Remember(const std::string &database, const std::string &table, KnownTable known);
void Forget(const std::string &database);

//! The answer to a question, if it was given before and still serves.
bool RecallAnswer(const std::string &question, Answer &answer);

//! Remember an answer whose fields are the number of a plan, what it keeps, and how many seconds it serves.
void RememberAnswer(const std::string &question, const Answer &answer);

} // namespace pruner
