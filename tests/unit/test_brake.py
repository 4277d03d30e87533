import pytest

from consumer.domain.brake import WINDOW_SECONDS, RetireBrake


@pytest.fixture
def brake():
    return RetireBrake(0.5, 20)


@pytest.mark.parametrize(
    ("judged", "dead", "believed"),
    [
        (1, 1, True),
        (19, 19, True),
        (20, 9, True),
        (20, 10, False),
        (20, 20, False),
        (100, 49, True),
        (100, 50, False),
        (100, 0, True),
        (0, 0, True),
    ],
)
def test_from_the_minimum_on_half_a_batch_is_not_believed(brake, judged, dead, believed):
    assert brake.believes(judged, dead, 0.0) is believed


def test_small_batches_add_up_within_the_window(brake):
    verdicts = [brake.believes(5, 5, float(second)) for second in range(5)]
    assert verdicts == [True, True, True, False, False]


def test_what_lies_longer_back_than_the_window_is_forgotten(brake):
    for second in range(3):
        brake.believes(5, 5, float(second))
    assert brake.believes(5, 5, WINDOW_SECONDS + 3)


def test_healthy_batches_make_dead_ones_plausible(brake):
    brake.believes(100, 0, 0.0)
    assert all(brake.believes(1, 1, float(second)) for second in range(1, 50))


def test_a_batch_without_dead_is_always_believed(brake):
    brake.believes(100, 100, 0.0)
    assert brake.believes(10, 0, 1.0)


def test_an_outage_at_the_provider_stays_unbelieved_batch_after_batch(brake):
    assert not any(brake.believes(100, 90, float(second)) for second in range(100))
