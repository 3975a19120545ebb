from __future__ import annotations

import pytest
import torch
import torchvision

from scotoma.training.models import BUILT_IN, build_model, cifar_resnet, wide_resnet

# He et al. (2016), table 6, and Zagoruyko and Komodakis (2016), tables 4 and 5: millions.
PUBLISHED = {"resnet20": 0.27, "wrn-22-8": 17.2, "wrn-28-10": 36.5, "cifar-resnet18": 11.17}
# Jordan (2024), section 3.1.
PUBLISHED |= {"speedrun": 1.97}


@pytest.mark.parametrize(("name", "millions"), PUBLISHED.items())
def test_networks_have_the_published_number_of_parameters(name: str, millions: float) -> None:
    counted = sum(p.numel() for p in build_model(name, 10, 0).parameters()) / 1e6
    assert counted == pytest.approx(millions, abs=0.5 * 10 ** -len(str(millions).split(".")[1]))


@pytest.mark.parametrize("name", ["resnet8", "resnet14", "resnet20", "cifar-resnet18"])
@pytest.mark.parametrize("size", [32, 48])
def test_images_of_any_size_give_one_score_a_class(name: str, size: int) -> None:
    model = build_model(name, 7, 0).eval()
    with torch.inference_mode():
        assert model(torch.zeros(2, 3, size, size)).shape == (2, 7)


def test_the_blocks_of_resnet18_are_torchvisions() -> None:
    ours = build_model("cifar-resnet18", 1000, 0).state_dict()
    theirs = torchvision.models.resnet18().state_dict()
    shapes = [tuple(v.shape) for name, v in ours.items() if not name.startswith("0.")]
    other = [tuple(v.shape) for name, v in theirs.items() if not name.startswith("conv1.")]
    assert shapes == other  # all but the first convolution, in the same order


def test_a_depth_that_makes_no_whole_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"depth must be 6n \+ 2, got 18"):
        cifar_resnet(18, 10)
    with pytest.raises(ValueError, match=r"depth must be 6n \+ 4, got 20"):
        wide_resnet(20, 8, 10)


def test_a_seed_decides_the_weights() -> None:
    for name in BUILT_IN:
        if name.startswith("wrn"):
            continue  # tens of millions of weights, made by the same code
        one, same, other = (build_model(name, 10, seed).state_dict() for seed in (1, 1, 2))
        assert all(torch.equal(one[key], same[key]) for key in one)
        assert not all(torch.equal(one[key], other[key]) for key in one)
