package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.LongNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Constants of Trino's own serialized expressions: blocks of one value in base64, as version 483 writes them.
 *
 * <p>Only blocks without NULL and of the kinds below are read, to their last byte: what is written otherwise is not guessed.
 */
final class BlockReader {
    private static final Pattern DECIMAL = Pattern.compile("decimal\\((\\d+),(\\d+)\\)");
    private static final Pattern TIMESTAMP = Pattern.compile("timestamp\\([0-6]\\)");
    private static final int SHORT_DECIMAL = 18;

    private final ByteBuffer bytes;

    private BlockReader(String block) {
        bytes = ByteBuffer.wrap(Base64.getDecoder().decode(block)).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** A value of a type, in the form of docs/trino-predicates.md. */
    static JsonNode value(String type, String block) {
        BlockReader reader = new BlockReader(block);
        JsonNode found = reader.next(type);
        reader.end();
        return found;
    }

    /** The fields of a row, by their types. */
    static List<JsonNode> row(List<String> types, String block) {
        BlockReader reader = new BlockReader(block);
        reader.begin("ROW");
        reader.require(reader.bytes.getInt() == types.size());
        List<JsonNode> found = new ArrayList<>();
        types.forEach(type -> found.add(reader.next(type)));
        reader.require(reader.bytes.get() == 0);
        reader.end();
        return found;
    }

    private JsonNode next(String type) {
        Matcher decimal = DECIMAL.matcher(type);
        if (decimal.matches()) {
            require(Integer.parseInt(decimal.group(1)) <= SHORT_DECIMAL);
            return TextNode.valueOf(
                    BigDecimal.valueOf(eightBytes(), Integer.parseInt(decimal.group(2))).toPlainString());
        }
        if (TIMESTAMP.matcher(type).matches()) {
            return JsonNodeFactory.instance.objectNode().put("micros", eightBytes()).put("picos", 0);
        }
        int length = type.indexOf('(');
        return switch (length < 0 ? type : type.substring(0, length)) {
            case "boolean" -> BooleanNode.valueOf(oneByte() != 0);
            case "tinyint" -> LongNode.valueOf(oneByte());
            case "smallint" -> LongNode.valueOf(plain("SHORT_ARRAY").getShort());
            case "integer", "date" -> LongNode.valueOf(plain("INT_ARRAY").getInt());
            case "bigint" -> LongNode.valueOf(eightBytes());
            case "real" -> TextNode.valueOf(Float.toString(Float.intBitsToFloat(plain("INT_ARRAY").getInt())));
            case "double" -> TextNode.valueOf(Double.toString(Double.longBitsToDouble(eightBytes())));
            case "varchar", "char" -> TextNode.valueOf(text());
            default -> throw new UnreadableException("a constant of type " + type);
        };
    }

    private byte oneByte() {
        return plain("BYTE_ARRAY").get();
    }

    private long eightBytes() {
        return plain("LONG_ARRAY").getLong();
    }

    private ByteBuffer plain(String encoding) {
        begin(encoding);
        require(bytes.get() == 0);
        return bytes;
    }

    private String text() {
        plain("VARIABLE_WIDTH");
        require(bytes.getInt() == 1);
        byte[] found = new byte[size()];
        bytes.get(found);
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(found)).toString();
        } catch (CharacterCodingException error) {
            throw new UnreadableException("text that is not UTF-8");
        }
    }

    /** The name of the encoding, and that there is one value. */
    private void begin(String encoding) {
        byte[] name = new byte[size()];
        bytes.get(name);
        require(new String(name, StandardCharsets.US_ASCII).equals(encoding));
        require(bytes.getInt() == 1);
    }

    private int size() {
        int size = bytes.getInt();
        require(size >= 0 && size <= bytes.remaining());
        return size;
    }

    private void end() {
        require(!bytes.hasRemaining());
    }

    private void require(boolean holds) {
        if (!holds) {
            throw new UnreadableException("a constant in another form");
        }
    }
}
