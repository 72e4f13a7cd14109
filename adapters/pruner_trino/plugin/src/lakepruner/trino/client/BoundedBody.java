package lakepruner.trino.client;

import java.io.ByteArrayOutputStream;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** The body of an answer, up to a size: a service that sends without end must not take the server's memory. */
final class BoundedBody implements HttpResponse.BodySubscriber<byte[]> {
    private final long limit;
    private final ByteArrayOutputStream received = new ByteArrayOutputStream();
    private final CompletableFuture<byte[]> body = new CompletableFuture<>();
    private Flow.Subscription subscription;

    private BoundedBody(long limit) {
        this.limit = limit;
    }

    static HttpResponse.BodyHandler<byte[]> upTo(long bytes) {
        return response -> new BoundedBody(bytes);
    }

    @Override
    public CompletionStage<byte[]> getBody() {
        return body;
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        this.subscription = subscription;
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> parts) {
        for (ByteBuffer part : parts) {
            if (received.size() + (long) part.remaining() > limit) {
                subscription.cancel();
                body.completeExceptionally(
                        new PlannerError("the service's answer cannot be used", "longer than " + limit + " bytes"));
                return;
            }
            byte[] bytes = new byte[part.remaining()];
            part.get(bytes);
            received.writeBytes(bytes);
        }
    }

    @Override
    public void onError(Throwable error) {
        body.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
        body.complete(received.toByteArray());
    }
}
