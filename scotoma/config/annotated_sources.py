"""Images that are published with annotations in JSON: COCO's and imSitu's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scotoma.config.recipe import Recipe
from scotoma.config.variants import Frozen

__all__ = ["MODEL", "CocoSource", "ImsituSource"]

MODEL = "A built-in or torchvision network, or package.module:function with --allow-code."
Part = Annotated[str, Field(min_length=1, pattern=r"^[^/\\\x00]+$")]
ONE_GENDER = (
    "Leave out images whose {} name no gender, or women and men, as the fixed-seed study does."
)


class CocoSource(Frozen):
    """COCO as its archives unpack: a folder of images for each split, and annotations beside."""

    kind: Literal["coco"]
    model: str = Field("resnet18", description=MODEL)
    data: str = Field(
        description="Folder or s3:// prefix with annotations/instances_SPLIT.json, and perhaps "
        "captions_SPLIT.json, for the images in SPLIT/."
    )
    train: Part = Field("train2017", description="Split that members are trained on.")
    test: Part = Field("val2017", description="Split that is audited.")
    attributes: str | None = Field(
        None, description="CSV with more columns for images, joined by `image_id`."
    )
    one_gender: bool = Field(False, description=ONE_GENDER.format("captions"))
    size: int = Field(
        128, ge=8, le=1024, description="Pixels per side, of the square in the middle."
    )
    recipe: Recipe = Recipe()


class ImsituSource(Frozen):
    """ImSitu as its authors publish it: what somebody does in an image, and who."""

    kind: Literal["imsitu"]
    model: str = Field("resnet18", description=MODEL)
    data: str = Field(
        description="Folder or s3:// prefix of of500_images_resized, imsitu_space.json and "
        "SPLIT.json."
    )
    train: Part = Field("train", description="Split that members are trained on.")
    test: Part = Field("test", description="Split that is audited.")
    one_gender: bool = Field(False, description=ONE_GENDER.format("agents"))
    size: int = Field(
        128, ge=8, le=1024, description="Pixels per side, of the square in the middle."
    )
    recipe: Recipe = Recipe()
