"""Property tests here judge behaviour, not speed: a busy machine must not fail them."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, max_examples=50)
settings.load_profile("steady")
