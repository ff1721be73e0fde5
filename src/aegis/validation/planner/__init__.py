"""The planner: how much exploration and how many episodes it takes until a gain is certified."""
