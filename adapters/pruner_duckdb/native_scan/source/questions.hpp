//! What DuckDB knows of a scan, in the words in which Python is asked.

#pragma once

#include "versions.hpp"

#include "duckdb/common/multi_file/multi_file_list.hpp"
#include "duckdb/common/multi_file/multi_file_reader.hpp"

namespace pruner {

//! One reference of a statement to a table, on one snapshot.
struct Reference {
	std::string database;
	std::string table;
	//! The answer to the bind: which snapshot, as Python numbers them.
	std::string bound;
	duckdb::shared_ptr<const FileList> files;
	//! Whether they are there with the versions that they had when the table was bound.
	bool has_versions = false;
	//! Names and types of the columns that are in the names of folders.
	duckdb::child_list_t<duckdb::Value> folders;
	//! The columns of the table, where its files do not show all of them alike.
	duckdb::vector<duckdb::MultiFileColumnDefinition> columns;
	//! How many rows a file has there, more or less.
	duckdb::idx_t rows = 0;
	//! Whether an index is over an expression, so that the form of a condition matters.
	bool as_written = false;
	//! Whether statistics in the files leave NaN out.
	bool can_have_nan = false;
};

//! A question as JSON, and beside it what of it another run need not share.
struct Question {
	std::string text;
	int64_t now = 0;

	//! With the moment in it.
	std::string Whole() const;
};

//! Some texts by their names.
std::string Message(std::initializer_list<std::pair<const char *, std::string>> fields);

//! The filters of a scan while it is optimized: all of them must hold.
//! @param plan number of the plan by the filters of before
Question StaticQuestion(duckdb::ClientContext &context, const Reference &reference, const std::string &plan,
                        const duckdb::MultiFilePushdownInfo &info,
                        const duckdb::vector<duckdb::unique_ptr<duckdb::Expression>> &filters);

//! What joins and others learned of a scan until it starts; empty where they learned nothing.
//! @param plan number of the plan by the filters of before
Question DynamicQuestion(duckdb::MultiFileDynamicPushdownInfo &info, const Reference &reference,
                         const std::string &plan, bool from_joins);

//! Whether positions of files in the list are part of what the scan shows.
bool ShowsFileNumbers(const duckdb::vector<duckdb::ColumnIndex> &columns);

} // namespace pruner
