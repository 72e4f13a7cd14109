package lakepruner.trino.predicates;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.BufferUnderflowException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What Trino says of a scan in its own serialized form alone: conditions with rows, CASE and IF.
 *
 * <p>The list of forms is closed. A condition with anything else in it is left out as a whole, and so keeps every file; the others
 * hold beside it, for all of them stand under an AND.
 */
final class Restatement {
    private static final int LONGEST = 1 << 20;
    private static final int NODES = 10_000;
    private static final int LEVELS = 50;
    private static final int BRANCHES = 6;

    /** Forms that a connector's expressions do not have. */
    private static final Set<String> OWN = Set.of("row", "case", "match");

    private static final Map<String, String> COMPARISONS = Map.of(
            "$operator$equal", "$equal",
            "$operator$less_than", "$less_than",
            "$operator$less_than_or_equal", "$less_than_or_equal");
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Columns columns;
    private final Map<String, JsonNode> bound = new HashMap<>();
    private int nodes;
    private int level;

    private Restatement(Columns columns) {
        this.columns = columns;
    }

    /** Conditions that hold for every row that is wanted. */
    static List<ObjectNode> conditions(String text, Columns columns) {
        List<ObjectNode> found = new ArrayList<>();
        for (JsonNode each : conjuncts(text)) {
            try {
                if (hasOwn(each, 0)) {
                    found.add(new Restatement(columns).condition(each));
                }
            } catch (UnreadableException | BufferUnderflowException | IllegalArgumentException unknown) {
                // Nothing is known of it.
            }
        }
        return found;
    }

    private static List<JsonNode> conjuncts(String text) {
        if (text.length() > LONGEST) {
            return List.of();
        }
        try {
            JsonNode whole = JSON.readTree(text);
            List<JsonNode> found = new ArrayList<>();
            if (is(whole, "logical") && whole.path("operator").asText().equals("AND")) {
                whole.path("terms").forEach(found::add);
            } else {
                found.add(whole);
            }
            return found;
        } catch (JsonProcessingException error) {
            return List.of();
        }
    }

    private static boolean hasOwn(JsonNode node, int level) {
        if (OWN.contains(node.path("@type").asText())) {
            return true;
        }
        for (JsonNode each : node) {
            if (level < LEVELS && hasOwn(each, level + 1)) {
                return true;
            }
        }
        return false;
    }

    /** A condition: true, false and NULL where Trino's is, but for what is opaque in it. */
    private ObjectNode condition(JsonNode node) {
        if (++nodes > NODES || ++level > LEVELS) {
            throw new UnreadableException("it is too large");
        }
        ObjectNode found = switch (node.path("@type").asText()) {
            case "logical" -> joined(logical(node), conditions(node.path("terms")));
            case "call" -> called(node);
            case "isnull" -> call("$is_null", value(node.path("value")));
            case "in" -> oneOf(node);
            case "case" -> chosen(node.path("whenClauses"), node.path("defaultValue"));
            case "match" -> matched(node);
            case "constant" -> value(node);
            default -> throw new UnreadableException("a condition of another form");
        };
        level--;
        return found;
    }

    private static String logical(JsonNode node) {
        return switch (node.path("operator").asText()) {
            case "AND" -> "$and";
            case "OR" -> "$or";
            default -> throw new UnreadableException("another operator");
        };
    }

    private List<ObjectNode> conditions(JsonNode list) {
        List<ObjectNode> found = new ArrayList<>();
        list.forEach(each -> found.add(condition(each)));
        return found;
    }

    private ObjectNode called(JsonNode node) {
        JsonNode name = node.path("function").path("signature").path("name");
        boolean builtIn = name.path("catalogName").asText().equals("system")
                && name.path("schemaName").asText().equals("builtin");
        String function = builtIn ? name.path("functionName").asText() : "";
        JsonNode arguments = node.path("arguments");
        if (function.equals("$not") && arguments.size() == 1) {
            return call("$not", condition(arguments.get(0)));
        }
        String comparison = COMPARISONS.get(function);
        if (comparison == null || arguments.size() != 2) {
            throw new UnreadableException("another function");
        }
        JsonNode left = arguments.get(0);
        JsonNode right = arguments.get(1);
        boolean ofRows = is(left, "row") || is(right, "row");
        if (ofRows && comparison.equals("$equal")) {
            return is(left, "row") ? sameRow(left, right) : sameRow(right, left);
        }
        return call(comparison, value(left), value(right));
    }

    private ObjectNode oneOf(JsonNode node) {
        JsonNode operand = node.path("value");
        List<ObjectNode> same = new ArrayList<>();
        for (JsonNode option : node.path("valueList")) {
            same.add(is(operand, "row") ? sameRow(operand, option) : call("$equal", value(operand), value(option)));
        }
        return joined("$or", same);
    }

    /** Where rows are equal all fields are. Where they are not, nothing is said: what NULL makes of it is Trino's own. */
    private ObjectNode sameRow(JsonNode row, JsonNode other) {
        List<JsonNode> items = list(row.path("items"));
        List<JsonNode> others = new ArrayList<>();
        if (is(other, "row")) {
            others.addAll(list(other.path("items")).stream().map(each -> (JsonNode) value(each)).toList());
        } else if (is(other, "constant") && other.path("type").equals(row.path("type"))) {
            List<String> types = items.stream().map(each -> each.path("type").asText()).toList();
            List<JsonNode> values = BlockReader.row(types, other.path("valueAsBlock").asText());
            for (int at = 0; at < types.size(); at++) {
                others.add(constant(types.get(at), values.get(at)));
            }
        }
        if (others.size() != items.size()) {
            throw new UnreadableException("a row beside something else");
        }
        List<ObjectNode> same = new ArrayList<>();
        for (int at = 0; at < items.size(); at++) {
            same.add(call("$equal", value(items.get(at)), others.get(at)));
        }
        ObjectNode rest = node("opaque", "boolean").put("text", "rows are looked at column by column");
        rest.putArray("columns");
        same.add(rest);
        return joined("$and", same);
    }

    /** The first result whose condition is true: one that is NULL is not. */
    private ObjectNode chosen(JsonNode clauses, JsonNode otherwise) {
        if (clauses.size() > BRANCHES) {
            throw new UnreadableException("more branches than are taken apart");
        }
        ObjectNode found = condition(otherwise);
        for (int at = clauses.size() - 1; at >= 0; at--) {
            JsonNode clause = clauses.get(at);
            found = either(condition(clause.path("operand")), condition(clause.path("result")), found);
        }
        return found;
    }

    private ObjectNode either(ObjectNode condition, ObjectNode then, ObjectNode otherwise) {
        // It is written four times, and so is what was written four times in it.
        nodes += 4 * size(condition);
        if (nodes > NODES) {
            throw new UnreadableException("it is too large");
        }
        ObjectNode met = call("$and", condition, call("$not", call("$is_null", condition)));
        return call("$or", call("$and", met, then), call("$and", call("$not", met), otherwise));
    }

    /** CASE with an operand: each clause has a function of it. */
    private ObjectNode matched(JsonNode node) {
        JsonNode operand = value(node.path("operand"));
        JsonNode clauses = node.path("clauses");
        if (clauses.size() > BRANCHES) {
            throw new UnreadableException("more branches than are taken apart");
        }
        ObjectNode found = condition(node.path("defaultValue"));
        for (int at = clauses.size() - 1; at >= 0; at--) {
            JsonNode lambda = clauses.get(at).path("predicate");
            if (!is(lambda, "lambda") || lambda.path("arguments").size() != 1) {
                throw new UnreadableException("a branch of another form");
            }
            String name = lambda.path("arguments").get(0).path("name").asText();
            JsonNode before = bound.put(name, operand);
            ObjectNode condition = condition(lambda.path("body"));
            if (before == null) {
                bound.remove(name);
            } else {
                bound.put(name, before);
            }
            found = either(condition, condition(clauses.get(at).path("result")), found);
        }
        return found;
    }

    /** A column, a constant, or a cast of one. */
    private ObjectNode value(JsonNode node) {
        if (++nodes > NODES) {
            throw new UnreadableException("it is too large");
        }
        String type = node.path("type").asText();
        return switch (node.path("@type").asText()) {
            case "reference" -> reference(node.path("name").asText(), type);
            case "constant" -> constant(type, BlockReader.value(type, node.path("valueAsBlock").asText()));
            case "cast" -> call("$cast", value(node.path("expression"))).put("type", type);
            default -> throw new UnreadableException("a value of another form");
        };
    }

    private ObjectNode reference(String name, String type) {
        if (bound.get(name) instanceof ObjectNode operand) {
            return operand;
        }
        String id = columns.id(name);
        if (id == null) {
            throw new UnreadableException("not a column of this scan");
        }
        return node("column", type).put("column", id);
    }

    private static ObjectNode constant(String type, JsonNode value) {
        return node("constant", type).set("value", value);
    }

    private static ObjectNode joined(String function, List<ObjectNode> parts) {
        if (parts.isEmpty()) {
            throw new UnreadableException("nothing to join");
        }
        return parts.size() == 1 ? parts.getFirst() : call(function, parts.toArray(JsonNode[]::new));
    }

    private static ObjectNode call(String function, JsonNode... arguments) {
        ObjectNode node = node("call", "boolean").put("function", function);
        ArrayNode list = node.putArray("arguments");
        List.of(arguments).forEach(list::add);
        return node;
    }

    private static ObjectNode node(String kind, String type) {
        return JsonNodeFactory.instance.objectNode().put("node", kind).put("type", type);
    }

    private static int size(JsonNode node) {
        int size = 1;
        for (JsonNode each : node.path("arguments")) {
            size += size(each);
        }
        return size;
    }

    private static List<JsonNode> list(JsonNode array) {
        List<JsonNode> found = new ArrayList<>();
        array.forEach(found::add);
        return found;
    }

    private static boolean is(JsonNode node, String type) {
        return node.path("@type").asText().equals(type);
    }
}
