package lakepruner.trino.predicates;

/** A part of Trino's own serialized expressions that is not one of the forms that are known. */
final class UnreadableException extends RuntimeException {
    private static final long serialVersionUID = 1;

    UnreadableException(String reason) {
        super(reason, null, false, false);
    }
}
