package lakepruner.trino.files;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where the planner looks for the values of a predicate's columns: those of partitions in the names of folders, all others
 * in the files.
 *
 * <p>A metastore may place a partition anywhere, and a table without partitions may lie in folders that are named
 * {@code p=1}: there the connector gives other values than the planner knows.
 *
 * @param partitions names of columns whose values come from the metastore
 * @param stored names of columns whose values come from the files
 */
public record Placement(Set<String> partitions, Set<String> stored) {
    public static final Placement NONE = new Placement(Set.of(), Set.of());

    private static final Pattern ESCAPE = Pattern.compile("%([0-7][0-9A-Fa-f])");
    private static final String NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__";
    private static final String NULL_VALUE = "\\N";

    /** That of the columns which a predicate names (docs/trino-predicates.md). */
    public static Placement of(JsonNode columns) {
        Placement found = new Placement(new HashSet<>(), new HashSet<>());
        for (JsonNode column : columns) {
            String name = column.get("path").get(0).asText();
            switch (column.get("kind").asText()) {
                case "partition" -> found.partitions.add(name);
                case "regular" -> found.stored.add(name);
                default -> {}
            }
        }
        return found;
    }

    /** Columns whose values are somewhere else for a file. */
    Set<String> displaced(SplitFile file) {
        Map<String, List<String>> folders = folders(file.path());
        Set<String> found = new HashSet<>();
        for (String name : partitions) {
            String value = file.partition().get(name);
            if (value == null
                    || !folders.getOrDefault(name, List.of()).equals(List.of(value.equals(NULL_VALUE) ? NULL_FOLDER : value))) {
                found.add(name);
            }
        }
        stored.stream().filter(folders::containsKey).forEach(found::add);
        return found;
    }

    private static Map<String, List<String>> folders(String path) {
        Map<String, List<String>> found = new HashMap<>();
        String[] parts = path.split("/");
        for (int at = 0; at < parts.length - 1; at++) {
            int equals = parts[at].indexOf('=');
            if (equals > 0) {
                String name = unescaped(parts[at].substring(0, equals)).toLowerCase(Locale.ROOT);
                found.computeIfAbsent(name, key -> new ArrayList<>()).add(unescaped(parts[at].substring(equals + 1)));
            }
        }
        return found;
    }

    /** Escapes of bytes beyond ASCII stay: engines read them differently, so they equal no value. */
    private static String unescaped(String text) {
        return ESCAPE.matcher(text)
                .replaceAll(found -> Matcher.quoteReplacement(String.valueOf((char) Integer.parseInt(found.group(1), 16))));
    }
}
