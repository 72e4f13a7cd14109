#include "versions.hpp"

#include "duckdb/common/file_system.hpp"
#include "duckdb/main/client_context.hpp"

#include <unordered_map>

using namespace duckdb;

namespace pruner {

namespace {

//! What of a listed file says which version it is.
constexpr const char *kOptions[] = {"last_modified", "etag"};

//! Files of a list by their names, of one folder.
using Folder = std::unordered_map<string, idx_t>;

std::unordered_map<string, Folder> ByFolders(const FileList &files) {
	std::unordered_map<string, Folder> folders;
	for (idx_t i = 0; i < files.size(); i++) {
		auto &path = files[i].path;
		auto slash = path.rfind('/');
		if (slash != string::npos && !FileSystem::IsRemoteFile(path)) {
			folders[path.substr(0, slash + 1)].emplace(path.substr(slash + 1), i);
		}
	}
	return folders;
}

shared_ptr<ExtendedOpenFileInfo> VersionOf(const ExtendedOpenFileInfo &listed) {
	auto version = make_shared_ptr<ExtendedOpenFileInfo>();
	for (auto name : kOptions) {
		auto found = listed.options.find(name);
		if (found != listed.options.end()) {
			version->options.emplace(name, found->second);
		}
	}
	return version;
}

} // namespace

bool KeepsFooters(ClientContext &context) {
	Value kept;
	return context.TryGetCurrentSetting("parquet_metadata_cache", kept) && !kept.IsNull() && BooleanValue::Get(kept);
}

shared_ptr<const FileList> WithVersions(ClientContext &context, const FileList &files) {
	auto versions = make_shared_ptr<FileList>(files);
	auto &system = FileSystem::GetFileSystem(context);
	for (auto &folder : ByFolders(files)) {
		try {
			system.ListFiles(folder.first, [&](OpenFileInfo &listed) {
				auto found = folder.second.find(listed.path);
				if (found != folder.second.end() && listed.extended_info) {
					(*versions)[found->second].extended_info = VersionOf(*listed.extended_info);
				}
			});
		} catch (std::exception &) {
			// A folder that this connection may not list: DuckDB opens its files, as it does those of any list.
		}
	}
	return std::move(versions);
}

} // namespace pruner
