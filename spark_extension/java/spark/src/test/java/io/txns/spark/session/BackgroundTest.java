package io.txns.spark.session;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.ref.WeakReference;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Threads of what nobody waits for. */
@Timeout(60)
class BackgroundTest {

  @Test
  void itRunsLater() throws Exception {
    CountDownLatch ran = new CountDownLatch(1);
    Background.WATCHING.later(10, ran::countDown);
    assertThat(ran.await(30, TimeUnit.SECONDS)).isTrue();
  }

  /** Thousands of small writes leave no timers, nor what these would hold. */
  @Test
  void whatIsCalledOffIsForgotten() throws Exception {
    CountDownLatch ran = new CountDownLatch(1);
    Background.WATCHING.later(100, ran::countDown).run();
    WeakReference<byte[]> held = calledOff();
    while (held.get() != null) {
      System.gc();
      Thread.sleep(10);
    }
    assertThat(ran.await(300, TimeUnit.MILLISECONDS)).isFalse();
  }

  private static WeakReference<byte[]> calledOff() {
    byte[] held = new byte[1 << 20];
    Background.WATCHING.later(3_600_000, () -> held[0]++).run();
    return new WeakReference<>(held);
  }
}
